"""Failed ratings: nothing is lost, claims expire, tenants don't affect each other, rule-based scores remain."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from app import failpoints, metrics
from app.clients.llm.resilience import PROBE_SECONDS, Breaker
from app.clients.llm.salience_scorer import Scorer
from app.domain.salience.rating_batches import TEXT_MAX_BYTES
from app.services.enrichment import rating_log, score_by_model
from app.services.monitoring import stats
from app.services.tenants import budget
from app.settings import settings
from app.store.enrichment import scores
from tests.service import Service
from tests.services.rated import Rated, rated

__all__ = ["rated"]

TEXTS = ["The garden is green.", "The bus is red.", "a zebra in town", "Lunch was at noon."]


class Killed(BaseException):
    """Simulates SIGKILL: nothing after it runs."""


def kill(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Kill the worker at this failpoint."""

    def reach(name: str, _about: str = "") -> None:
        if name == place:
            raise Killed

    monkeypatch.setattr(failpoints, "trigger", reach)


def refused(rated: Rated) -> int:
    """Return the number of memories refused by a rater version, which keep their rule-based score."""
    return int(rated.service.one("SELECT count(*) FROM scores WHERE refused_by IS NOT NULL"))


# --- F13: invalid answers about a memory ---

SENSELESS = ["not_json", "wrong_count", "nan", "wrong_ids", "swapped", "long_answer", "garbage", "no_choice"]


@pytest.mark.parametrize("mode", [*SENSELESS, "refusal", "truncated"])
def test_a_memory_without_an_answer_is_left_to_the_rules_and_its_neighbours_are_rated(rated: Rated, mode: str) -> None:
    ids = rated.send(*TEXTS)
    rated.fake.control.set(mode=mode, poison="zebra")
    assert score_by_model.rate_memories() == (
        4 if mode == "swapped" else 3
    )  # a memory that is alone in its call can't be swapped
    rated.fake.control.set()
    rated.fake.control.bodies.clear()
    rated.lapse()
    assert score_by_model.rate_memories() == 0, "refused memories aren't sent again"
    assert rated.asked() == []
    if mode != "swapped":
        assert rated.sources(*ids) == ["llm", "llm", "heuristic", "llm"]
        assert (refused(rated), metrics.read_counters()["rating_failures"]) == (1, 1)
    assert rated.turn() is None
    assert stats.tenant_stats(rated.tenant.tenant_id).pending["rate"] == 0
    assert rated.service.letters(rated.tenant.tenant_id) == []


def test_where_nothing_at_all_makes_sense_that_is_the_providers_matter_and_all_is_rated_later(rated: Rated) -> None:
    ids = rated.send(*TEXTS)
    rated.fake.control.set(mode="garbage")
    waits = []
    for _ in range(3):
        assert score_by_model.rate_memories() == 0
        held = rated.turn()
        assert held is not None
        waits.append(held[1])
        rated.service.rows("UPDATE rating_turns SET claimed_until = '-infinity'")
    assert set(rated.sources(*ids)) == {"heuristic"}
    assert (refused(rated), rated.asks()) == (0, [0] * 4)
    assert waits[0] < waits[1] < waits[2], "an incapable model is retried at growing intervals"
    rated.fake.control.set()
    assert score_by_model.rate_memories() == 4


def test_another_model_is_asked_about_what_one_has_refused(rated: Rated) -> None:
    ids = rated.send(*TEXTS)
    rated.fake.control.set(mode="refusal")
    assert score_by_model.rate_memories() == 0
    assert set(rated.sources(*ids)) == {"heuristic"}
    assert refused(rated) == 4
    rated.service.configure(salience_model="another")
    rated.fake.control.set()
    rated.lapse()
    rated.send("one more, so that there is a turn")
    assert score_by_model.rate_memories() == 5, "another model may succeed"


def test_numbers_beyond_the_scale_are_brought_to_its_end(rated: Rated) -> None:
    [memory_id] = rated.send(TEXTS[0])
    rated.fake.control.set(mode="huge")
    assert score_by_model.rate_memories() == 1
    found = rated.stored(memory_id)
    assert found.criteria is not None
    assert found.salience is not None
    assert (found.criteria["emotional"], found.salience <= 1) == (10, True)


@pytest.mark.parametrize("mode", ["too_long_input", "bad_request"])
def test_a_memory_that_no_request_can_hold_is_set_aside(
    rated: Rated, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = rated.send(*TEXTS)
    rated.fake.control.set(mode=mode, poison="zebra")
    assert score_by_model.rate_memories() == 3
    assert rated.sources(*ids) == ["llm", "llm", "heuristic", "llm"]
    reason = {"too_long_input": "too_large"}.get(mode, mode)
    assert rated.service.letters(rated.tenant.tenant_id) == [("rate", reason, 1)]
    kept = rated.service.rows("SELECT memory_ids, payload FROM dead_letters")
    assert kept == [([ids[2]], None)]
    rated.lapse()
    assert score_by_model.rate_memories() == 0
    assert "zebra" not in "".join(capsys.readouterr())


def test_a_provider_that_calls_every_request_bad_sets_nothing_aside(rated: Rated) -> None:
    ids = rated.send(*TEXTS)
    rated.fake.control.set(mode="bad_request")
    assert score_by_model.rate_memories() == 0
    assert rated.service.letters(rated.tenant.tenant_id) == []
    assert (refused(rated), rated.asks()) == (0, [0] * 4)
    rated.fake.control.set()
    rated.lapse()
    assert score_by_model.rate_memories() == 4
    assert set(rated.sources(*ids)) == {"llm"}


# --- F12: failing providers ---

ILL = ["rate_limit", "server_error", "unavailable", "reset", "hang", "quota", "unauthorised", "no_model", "redirect"]


@pytest.mark.parametrize("mode", ILL)
def test_an_ill_provider_costs_nothing_but_time(
    rated: Rated, mode: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score_by_model, "RETRY_SECONDS", 300.0)
    if mode == "hang":
        rated.service.configure(llm_timeout_seconds=3)
    ids = rated.send(*TEXTS)
    rated.fake.control.set(mode=mode, retry_after="450" if mode == "rate_limit" else None)
    assert score_by_model.rate_memories() == 0
    assert rated.fake.calls == 1, "no retry within a call: the row is retried later"
    assert set(rated.sources(*ids)) == {"heuristic"}
    assert (refused(rated), rated.asks()) == (0, [0] * 4)
    turn = rated.turn()
    assert turn is not None
    assert 200 < turn[1] <= 300, "whatever the provider requested: its breaker pauses the calls, not the tenant's turn"
    assert not turn[0]
    assert score_by_model.rate_memories() == 0
    assert rated.fake.calls == 1, "the turn isn't due yet"
    rated.fake.control.set()
    rated.lapse()
    assert score_by_model.rate_memories() == 4
    assert set(rated.sources(*ids)) == {"llm"}
    written = "".join(capsys.readouterr())
    assert "rating_put_off" in written
    assert not any(word in written for word in ("garden", "zebra", "Lunch"))


def logged(capsys: pytest.CaptureFixture[str], event: str) -> list[dict[str, Any]]:
    """Return the log lines of this event since the last call."""
    lines = "".join(capsys.readouterr()).splitlines()
    return [json.loads(line) for line in lines if f'"event": "{event}"' in line]


def test_the_log_has_the_words_of_the_finding_the_model_and_the_status(
    rated: Rated, capsys: pytest.CaptureFixture[str]
) -> None:
    rated.send(*TEXTS)
    rated.fake.control.set(mode="server_error")
    score_by_model.rate_memories()
    [line] = logged(capsys, "rating_put_off")
    model = settings().salience_model
    assert (line["reason"], line["model"], line["status"], line["memories"]) == ("server error", model, 500, 4)
    rated.lapse()
    rated.fake.control.set(mode="not_json", poison="zebra")
    score_by_model.rate_memories()
    [line] = logged(capsys, "not_rated")
    assert (line["reason"], line["model"], line["detail"]) == ("unusable answer", model, "not JSON")


def test_a_failure_that_continues_is_logged_once_and_then_rarely(
    rated: Rated, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rated.service.configure(llm_breaker_failures=100)
    rated.send(*TEXTS)

    def fail(mode: str, times: int) -> list[dict[str, Any]]:
        rated.fake.control.set(mode=mode)
        for _ in range(times):
            rated.lapse()
            score_by_model.rate_memories()
        return logged(capsys, "rating_put_off")

    assert [line["unlogged_turns"] for line in fail("server_error", 4)] == [0]
    assert [line["reason"] for line in fail("unauthorised", 2)] == ["API key rejected"], (
        "another kind is logged at once"
    )
    with monkeypatch.context() as patch:
        patch.setattr(rating_log, "REPEAT_SECONDS", 0.0)
        assert [line["unlogged_turns"] for line in fail("server_error", 1)] == [3]
    rated.fake.control.set()
    rated.lapse()
    assert score_by_model.rate_memories() == len(TEXTS)
    rated.send("A fifth one.")
    assert [line["unlogged_turns"] for line in fail("server_error", 2)] == [0], "a success ends the outage"


def test_a_provider_that_refuses_connections_is_asked_again_when_it_listens(rated: Rated) -> None:
    ids = rated.send(*TEXTS)
    rated.fake.refuse()
    assert score_by_model.rate_memories() == 0
    rated.fake.listen()
    rated.lapse()
    assert score_by_model.rate_memories() == 4
    assert set(rated.sources(*ids)) == {"llm"}


def test_what_was_rated_before_it_fell_ill_is_kept(rated: Rated) -> None:
    rated.service.configure(score_batch_memories=1, llm_concurrency=4)
    ids = rated.send(*TEXTS)
    rated.fake.control.set(mode="server_error", poison="zebra")
    done = score_by_model.rate_memories()
    assert done >= 1
    assert rated.sources(*ids).count("llm") == done
    assert rated.sources(ids[2]) == ["heuristic"]
    assert rated.asks() == [0] * 4
    rated.fake.control.set()
    rated.lapse()
    assert score_by_model.rate_memories() == 4 - done


def test_after_enough_failures_nobody_is_asked(rated: Rated) -> None:
    rated.service.configure(llm_breaker_failures=2)
    rated.send(*TEXTS)
    rated.fake.control.set(mode="server_error")
    for _ in range(4):
        score_by_model.rate_memories()
        rated.service.rows("UPDATE rating_turns SET claimed_until = '-infinity'")
    assert rated.fake.calls == 2
    assert rated.turn() == (False, 0.0), "no turn is claimed while the breaker is open"


@pytest.mark.parametrize(("mode", "retry_after"), [("rate_limit", "99999999"), ("unavailable", "900"), ("quota", None)])
def test_after_a_long_outage_one_small_call_ends_the_pause_for_every_tenant(
    rated: Rated, monkeypatch: pytest.MonkeyPatch, mode: str, retry_after: str | None
) -> None:
    now = [0.0]
    monkeypatch.setattr("app.clients.llm.provider.Breaker", partial(Breaker, clock=lambda: now[0]))
    rated.service.configure(llm_breaker_failures=1)
    other = rated.service.tenant()
    ids, others = rated.send(*TEXTS), rated.send(*TEXTS, tenant=other)
    rated.fake.control.set(mode=mode, retry_after=retry_after)

    def pass_time(seconds: float) -> int:
        now[0] += seconds
        rated.service.rows("UPDATE rating_turns SET claimed_until = claimed_until - make_interval(secs => %s)", seconds)
        return score_by_model.rate_memories()

    for _ in range(30):  # ten minutes of an outage, with the safety net's nudges
        pass_time(20)
    intervals = 600 / PROBE_SECONDS
    assert 2 < rated.fake.calls <= intervals + 1, "no more than a probe in each interval, over all tenants"
    assert len(rated.asked()[0]) == 4
    assert {len(call) for call in rated.asked()[1:]} == {score_by_model.PROBE_MEMORIES}
    assert rated.asks() == [0] * 8

    rated.fake.control.set()
    calls = rated.fake.calls
    rates = [pass_time(10) for _ in range(6)]
    assert sum(rates) == 8, "all tenants' memories are rated within a minute"
    assert rated.fake.calls - calls <= 4, "the probe, and a full call for each tenant"
    assert set(rated.sources(*ids)) == {"llm"}
    assert {rated.stored(each, other).salience_source for each in others} == {"llm"}


@pytest.mark.parametrize("mode", ["garbage", "bad_request"])
def test_unusable_answers_end_within_a_minute_after_the_model_is_capable_again(rated: Rated, mode: str) -> None:
    rated.send(*TEXTS)
    rated.fake.control.set(mode=mode)
    for _ in range(8):
        score_by_model.rate_memories()
        rated.service.rows("UPDATE rating_turns SET claimed_until = '-infinity'")
    rated.fake.control.bodies.clear()
    score_by_model.rate_memories()
    assert max(map(len, rated.asked())) == score_by_model.PROBE_MEMORIES, "an incapable model is probed with little"
    turn = rated.turn()
    assert turn is not None
    assert turn[1] < 60
    rated.fake.control.set()
    rated.service.rows("UPDATE rating_turns SET claimed_until = '-infinity'")
    assert score_by_model.rate_memories() == 4


def test_a_known_text_needs_no_provider(rated: Rated) -> None:
    rated.send(TEXTS[0])
    score_by_model.rate_memories()
    again, other = rated.send(TEXTS[0], TEXTS[1])
    rated.fake.control.set(mode="server_error")
    assert score_by_model.rate_memories() == 1
    assert rated.sources(again, other) == ["llm", "heuristic"]


def test_a_failing_provider_is_no_reason_for_the_rules_to_wait(rated: Rated) -> None:
    rated.fake.control.set(mode="server_error")
    score_by_model.rate_memories()
    [memory_id] = rated.send(TEXTS[0])
    assert rated.sources(memory_id) == ["heuristic"]


# --- Time limits ---


def test_a_slice_begins_no_batch_when_its_time_is_over(rated: Rated) -> None:
    rated.service.configure(score_batch_tokens=100, slice_seconds=0.001)
    rated.send(*(f"{number} " * 200 for number in range(5)))
    assert score_by_model.rate_memories() == 1
    assert sorted(rated.asks()) == [0] * 5
    assert [score_by_model.rate_memories() for _ in range(4)] == [1] * 4


def test_a_batch_that_makes_trouble_for_too_long_comes_in_single_memories(
    rated: Rated, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = rated.send(*TEXTS)
    monkeypatch.setattr("app.domain.salience.llm_scoring.SETTLE_SECONDS", 0.0)
    rated.fake.control.set(mode="refusal", poison="zebra")
    score_by_model.rate_memories()
    assert [len(call) for call in rated.asked()] == [4, 1, 1, 1, 1]
    assert rated.sources(*ids) == ["llm", "llm", "heuristic", "llm"]


def test_a_huge_text_is_shown_in_part(rated: Rated) -> None:
    long = "all of it " * (TEXT_MAX_BYTES // 10)
    first, second = rated.send(f"{long} and one end", f"{long} and another")
    assert score_by_model.rate_memories() == 2
    assert rated.fake.calls == 1
    assert rated.sources(first, second) == ["llm", "llm"]
    [[shown]] = rated.asked()
    assert len(shown.encode()) <= TEXT_MAX_BYTES


# --- Killed workers ---


@pytest.mark.parametrize("place", ["rate.before", "rate.before_write"])
def test_what_a_worker_died_over_comes_last_and_alone(
    rated: Rated, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    ids = rated.send(*TEXTS)
    with monkeypatch.context() as patch:
        kill(patch, place)
        with pytest.raises(Killed):
            score_by_model.rate_memories()
    assert rated.asks() == [1] * 4
    turn = rated.turn()
    assert turn is not None
    assert turn[0]
    assert score_by_model.rate_memories() == 0, "the lease is still valid"
    rated.fake.control.bodies.clear()
    rated.lapse()
    rated.send("fresh")
    assert score_by_model.rate_memories() == 5
    assert [len(call) for call in rated.asked()] == [1] * 5
    assert rated.asked()[0] == ["fresh"]
    assert set(rated.sources(*ids)) == {"llm"}


def die_three_times(rated: Rated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let three workers die while they rate, and end their turns."""
    with monkeypatch.context() as patch:
        kill(patch, "rate.before")
        for _ in range(3):
            with pytest.raises(Killed):
                score_by_model.rate_memories()
            rated.lapse()


def test_what_kills_every_worker_is_set_aside(
    rated: Rated, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [memory_id] = rated.send(TEXTS[2])
    die_three_times(rated, monkeypatch)
    assert score_by_model.rate_memories() == 0
    assert rated.fake.calls == 0
    assert rated.service.letters(rated.tenant.tenant_id) == [("rate", "its worker died each time", 3)]
    assert rated.sources(memory_id) == ["heuristic"]
    assert rated.turn() is None
    assert "zebra" not in "".join(capsys.readouterr())


def test_two_workers_that_give_a_memory_up_set_it_aside_once(rated: Rated, monkeypatch: pytest.MonkeyPatch) -> None:
    rated.send(TEXTS[2])
    die_three_times(rated, monkeypatch)
    stop = score_by_model._stop_rating

    def both_stop(*given: Any) -> None:
        stop(*given)
        stop(*given)  # by a worker whose turn has expired

    monkeypatch.setattr(score_by_model, "_stop_rating", both_stop)
    assert score_by_model.rate_memories() == 0
    assert rated.service.letters(rated.tenant.tenant_id) == [("rate", "its worker died each time", 3)]


def test_a_fault_of_ours_holds_nothing_and_names_no_text(rated: Rated, monkeypatch: pytest.MonkeyPatch) -> None:
    rated.send(*TEXTS)

    def fail(_scorer: Scorer, _asked: object, **_: object) -> None:
        raise ValueError("a fault")

    with monkeypatch.context() as patch:
        patch.setattr(Scorer, "gather", fail)
        assert score_by_model.rate_memories() == 0
    turn = rated.turn()
    assert turn is not None
    assert not turn[0]
    rated.lapse()
    assert score_by_model.rate_memories() == 4


def test_a_database_that_goes_away_meanwhile_is_not_the_memories_fault(
    rated: Rated, monkeypatch: pytest.MonkeyPatch
) -> None:
    rated.send(*TEXTS)

    def fail(*_: object, **__: object) -> None:
        raise ConnectionError

    with monkeypatch.context() as patch:
        patch.setattr(scores, "write", fail)
        with pytest.raises(ConnectionError):
            score_by_model.rate_memories()
    assert rated.asks() == [0] * 4
    rated.lapse()
    assert score_by_model.rate_memories() == 4


def test_a_budget_that_cannot_be_read_holds_no_turn(rated: Rated, monkeypatch: pytest.MonkeyPatch) -> None:
    rated.send(TEXTS[0])

    def fail(_: object) -> None:
        raise ConnectionError

    with monkeypatch.context() as patch:
        patch.setattr(budget, "budget_state", fail)
        with pytest.raises(ConnectionError):
            score_by_model.rate_memories()
    turn = rated.turn()
    assert turn is not None
    assert not turn[0]


def test_the_turn_of_a_tenant_without_memories_goes(service: Service, rated: Rated) -> None:
    service.rows("INSERT INTO rating_turns (tenant_id) VALUES (%s)", rated.tenant.tenant_id)
    assert score_by_model.rate_memories() == 0
    assert rated.turn() is None
