"""Ratings: a model overrides the rules, the caller overrides both, and no text is rated twice."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import pytest

from app import metrics
from app.api.http import responses
from app.clients.llm.model_clients import model_clients
from app.clients.llm.responses import Usage
from app.clients.llm.salience_scorer import Gathered, Scorer
from app.domain.ingest.memory import MemoryPatch
from app.domain.salience.llm_scoring import CUES_PROMPT_VERSION
from app.domain.salience.rating_batches import UnscoredText
from app.services.enrichment import score_by_model, score_by_rules, stage_runner
from app.services.jobs import lease
from app.services.memories import memories
from app.services.monitoring import stats
from app.services.tenants import budget
from tests.service import Service
from tests.services.due_deletions import erased
from tests.services.rated import Rated, rated
from tests.waiting import until

__all__ = ["rated"]

DOCTOR = "We decided to call the doctor tomorrow: my daughter Ines is allergic."
RAIN = "It rained."


def during(monkeypatch: pytest.MonkeyPatch, happen: Any) -> None:
    """Call `happen` after memories were claimed for rating and before their ratings are written."""
    gather = Scorer.gather

    def gather_late(scorer: Scorer, asked: Sequence[UnscoredText], **more: Any) -> Gathered:
        found = gather(scorer, asked, **more)
        happen()
        return found

    monkeypatch.setattr(Scorer, "gather", gather_late)


def test_what_the_rules_have_scored_a_model_rates(rated: Rated) -> None:
    doctor, rain = rated.send(DOCTOR, RAIN)
    assert rated.sources(doctor, rain) == ["heuristic", "heuristic"]
    assert score_by_model.rate_memories() == 2
    found = responses.memory(rated.stored(doctor), {})
    assert found["salience"]["source"] == "llm"
    assert sum(found["salience"]["criteria"].values()) / 40 == pytest.approx(found["salience"]["value"], abs=1e-5)
    assert found["inferred"]["kind"] == "episodic"
    assert "Ines" in found["inferred"]["entities"]
    assert (found["inferred"]["categories"], found["inferred"]["sensitivity"]) == (["health"], 1.0)
    assert 1 <= len(found["inferred"]["topics"]) <= 5
    less = rated.stored(rain).salience
    assert less is not None
    assert found["salience"]["value"] > less
    assert rated.asked() == [[DOCTOR, RAIN]] or rated.asked() == [[RAIN, DOCTOR]]
    assert rated.turn() is None, "nothing is left to rate"
    assert score_by_model.rate_memories() == 0


def test_the_lease_of_a_turn_is_short_and_renewed_while_a_model_is_asked(
    rated: Rated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a dead worker holds a turn, no tenant's memories are rated: its lease doesn't follow from the timeout."""
    rated.service.configure(llm_timeout_seconds=120)
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.02)
    leases: list[float] = []

    def happen() -> None:
        _, seconds = rated.turn() or (False, 0.0)
        leases.append(seconds)
        rated.service.rows("UPDATE rating_turns SET claimed_until = now() - interval '1 second'")
        until(lambda: rated.service.one("SELECT claimed_until > now() FROM rating_turns"), "the lease is renewed")

    during(monkeypatch, happen)
    rated.send(DOCTOR)
    assert score_by_model.rate_memories() == 1
    assert [0 < seconds <= lease.LEASE_SECONDS for seconds in leases] == [True]


def test_a_turn_that_has_passed_to_another_worker_is_not_renewed(rated: Rated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.02)
    other = uuid4()
    ends = "SELECT claimed_until FROM rating_turns WHERE claim = %s"

    def happen() -> None:
        rated.service.rows("UPDATE rating_turns SET claim = %s, claimed_until = now() + interval '1 hour'", other)
        before = rated.service.one(ends, other)
        until(lambda: not [one for one in threading.enumerate() if one.name == "lease"], "the renewals end")
        assert rated.service.one(ends, other) == before

    during(monkeypatch, happen)
    rated.send(DOCTOR)
    score_by_model.rate_memories()
    assert rated.service.one("SELECT claim FROM rating_turns") == other, "only the claim's owner may release it"


def test_without_a_provider_nobody_is_asked_and_the_turn_waits_for_one(service: Service) -> None:
    tenant = service.tenant()
    service.send(tenant.tenant_id, DOCTOR)
    service.work()
    assert score_by_model.rate_memories() == 0
    assert stats.tenant_stats(tenant.tenant_id).pending["rate"] == 0
    assert service.one("SELECT count(*) FROM rating_turns WHERE tenant_id = %s", tenant.tenant_id) == 1


def test_what_waits_for_a_rating_is_counted(rated: Rated) -> None:
    ids = rated.send(DOCTOR, RAIN, {"text": "the caller's", "salience": 0.3})
    waiting = [stats.tenant_stats(rated.tenant.tenant_id).pending["rate"]]
    memories.delete(rated.tenant.tenant_id, ids[1])
    waiting.append(stats.tenant_stats(rated.tenant.tenant_id).pending["rate"])
    score_by_model.rate_memories()
    waiting.append(stats.tenant_stats(rated.tenant.tenant_id).pending["rate"])
    assert waiting == [2, 1, 0]
    counted = metrics.read_counters()
    assert (counted["rated_memories"], counted["rating_cache_hits"], counted["rating_failures"]) == (1, 0, 0)


def test_the_callers_labels_stand(rated: Rated) -> None:
    given = {"text": DOCTOR, "kind": "semantic", "categories": ["pii"], "entities": ["the clinic"]}
    [memory_id] = rated.send(given)
    score_by_model.rate_memories()
    found = responses.memory(rated.stored(memory_id), {})
    assert (found["kind"], found["categories"], found["entities"]) == ("semantic", ("pii",), ("the clinic",))
    inferred = found["inferred"]
    assert (inferred["kind"], inferred["categories"], inferred["entities"]) == (None, [], [])
    assert inferred["topics"]
    memories.edit_memory(rated.tenant.tenant_id, memory_id, MemoryPatch(kind=None, categories=()))
    inferred = responses.memory(rated.stored(memory_id), {})["inferred"]
    assert (inferred["kind"], inferred["categories"]) == ("episodic", ["health"])


def test_the_callers_salience_is_not_asked_about(rated: Rated) -> None:
    [memory_id] = rated.send({"text": DOCTOR, "salience": 0.25})
    assert score_by_model.rate_memories() == 0
    assert (rated.fake.calls, rated.sources(memory_id)) == (0, ["caller"])


def test_a_salience_given_meanwhile_stands_and_taken_back_it_is_the_models(
    rated: Rated, monkeypatch: pytest.MonkeyPatch
) -> None:
    [memory_id] = rated.send(DOCTOR)
    tenant_id = rated.tenant.tenant_id
    score_by_model.rate_memories()
    by_model = rated.stored(memory_id).salience
    memories.edit_memory(tenant_id, memory_id, MemoryPatch(salience=0.25))
    assert rated.sources(memory_id) == ["caller"]
    memories.edit_memory(tenant_id, memory_id, MemoryPatch(salience=None))
    stage_runner.run_score_stage()
    assert rated.sources(memory_id) == ["llm"]
    assert rated.stored(memory_id).salience == by_model
    [other] = rated.send(RAIN)
    during(monkeypatch, lambda: memories.edit_memory(tenant_id, other, MemoryPatch(salience=0.5)))
    assert score_by_model.rate_memories() == 0
    assert rated.sources(other) == ["caller"]


def test_the_rules_never_take_back_what_a_model_said_of_the_same_text(rated: Rated) -> None:
    [memory_id] = rated.send(DOCTOR)
    score_by_model.rate_memories()
    before = rated.stored(memory_id)
    assert score_by_rules.score_memories(rated.tenant.tenant_id, [memory_id]) == 0
    assert rated.stored(memory_id) == before
    assert rated.turn() is None


def test_a_new_text_is_judged_and_rated_anew(rated: Rated) -> None:
    [memory_id] = rated.send(DOCTOR)
    score_by_model.rate_memories()
    memories.edit_memory(rated.tenant.tenant_id, memory_id, MemoryPatch(text="The bus is red."))
    stage_runner.run_score_stage()
    found = rated.stored(memory_id)
    assert found.salience_source == "heuristic"
    assert found.inferred is not None
    assert (found.inferred["topics"], found.inferred["categories"], found.inferred["sensitivity"]) == ([], [], None)
    kept = rated.service.rows("SELECT version, digest, asks, refused_by FROM scores")
    assert kept == [(None, None, 0, None)]
    assert score_by_model.rate_memories() == 1
    assert rated.asked()[-1] == ["The bus is red."]


def test_an_edit_meanwhile_is_not_overwritten(rated: Rated, monkeypatch: pytest.MonkeyPatch) -> None:
    [memory_id] = rated.send(DOCTOR)
    tenant_id = rated.tenant.tenant_id
    during(monkeypatch, lambda: memories.edit_memory(tenant_id, memory_id, MemoryPatch(text=RAIN)))
    assert score_by_model.rate_memories() == 0
    assert rated.stored(memory_id).criteria is None
    monkeypatch.undo()
    stage_runner.run_score_stage()
    assert score_by_model.rate_memories() == 1
    assert rated.asked() == [[DOCTOR], [RAIN]]
    assert rated.sources(memory_id) == ["llm"]


def test_a_memory_deleted_meanwhile_keeps_no_score(rated: Rated, monkeypatch: pytest.MonkeyPatch) -> None:
    [memory_id] = rated.send(DOCTOR)
    during(monkeypatch, lambda: memories.delete(rated.tenant.tenant_id, memory_id))
    assert score_by_model.rate_memories() == 0
    assert rated.service.one("SELECT count(*) FROM scores WHERE scorer = 'llm'") == 0
    erased(rated.tenant.tenant_id)
    assert rated.service.one("SELECT count(*) FROM scores") == 0


def test_the_least_certain_come_first(rated: Rated) -> None:
    rated.service.configure(score_batch_memories=1)
    ids = rated.send("one", "two", "three")
    for memory_id, uncertainty in zip(ids, (0.2, 0.9, 0.5), strict=True):
        rated.service.rows("UPDATE scores SET uncertainty = %s WHERE memory_id = %s", uncertainty, memory_id)
    assert score_by_model.rate_memories() == 3
    assert rated.asked() == [["two"], ["three"], ["one"]]


def test_the_speaker_is_shown(rated: Rated) -> None:
    rated.send({"text": RAIN, "speaker": "Ann"})
    score_by_model.rate_memories()
    assert rated.asked() == [["Ann: It rained."]]


# --- Cached ratings ---


def test_the_same_text_is_asked_about_once(rated: Rated) -> None:
    first, same, ours, by_ann = rated.send(DOCTOR, DOCTOR, RAIN, {"text": RAIN, "speaker": "Ann"})
    assert score_by_model.rate_memories() == 4
    assert sorted(rated.asked()[0]) == sorted([DOCTOR, RAIN, "Ann: It rained."])
    [again] = rated.send(DOCTOR)
    assert score_by_model.rate_memories() == 1
    assert rated.fake.calls == 1
    reported = [rated.stored(memory_id) for memory_id in (first, same, again)]
    assert {each.salience_source for each in reported} == {"llm"}
    assert reported[0].criteria == reported[1].criteria == reported[2].criteria
    assert reported[0].inferred == reported[1].inferred == reported[2].inferred
    assert rated.stored(ours).salience_source == rated.stored(by_ann).salience_source == "llm"
    assert metrics.read_counters()["rating_cache_hits"] == 2


def test_what_the_caller_said_of_one_memory_is_not_in_the_cache(rated: Rated) -> None:
    rated.send({"text": DOCTOR, "kind": "semantic", "categories": ["pii"], "entities": ["x"]})
    score_by_model.rate_memories()
    [again] = rated.send(DOCTOR)
    score_by_model.rate_memories()
    assert rated.fake.calls == 1
    inferred = rated.stored(again).inferred
    assert inferred is not None
    assert (inferred["kind"], inferred["categories"]) == ("episodic", ["health"])
    assert "Ines" in inferred["entities"]


def test_another_tenant_knows_nothing_of_it(rated: Rated) -> None:
    rated.send(DOCTOR)
    score_by_model.rate_memories()
    rated.send(DOCTOR, tenant=rated.service.tenant())
    assert score_by_model.rate_memories() == 1
    assert rated.asked() == [[DOCTOR], [DOCTOR]]


def test_another_models_word_is_not_taken(rated: Rated) -> None:
    rated.send(DOCTOR)
    score_by_model.rate_memories()
    rated.service.configure(salience_model="another")
    rated.lapse()
    [again] = rated.send(DOCTOR)
    assert score_by_model.rate_memories() == 1
    assert rated.asked() == [[DOCTOR], [DOCTOR]]
    kept = rated.service.one("SELECT version FROM scores WHERE memory_id = %s", again)
    assert kept == f"another/{CUES_PROMPT_VERSION}"


# --- Turns ---


def test_tenants_take_turns(rated: Rated) -> None:
    rated.service.configure(score_batch_memories=1, slice_seconds=0.001)
    other = rated.service.tenant()
    rated.send("a", "b", "c")
    rated.send("d", "e", "f", tenant=other)
    assert [score_by_model.rate_memories() for _ in range(4)] == [1] * 4
    left = rated.service.rows("SELECT count(*) FROM scores WHERE scorer = 'heuristic' GROUP BY tenant_id")
    assert left == [(1,), (1,)]


def test_while_others_wait_a_turn_is_one_call_per_thread(rated: Rated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_by_model, "TURN_SECONDS", 0)
    rated.service.configure(score_batch_tokens=100)
    quiet = rated.service.tenant()
    long = [f"{number} " * 200 for number in range(5)]
    rated.send(*long)
    [memory_id] = rated.send(DOCTOR, tenant=quiet)
    rated.service.configure(slice_seconds=1e-6)  # one turn per slice
    assert [score_by_model.rate_memories() for _ in range(2)] == [1, 1]
    assert rated.stored(memory_id, quiet).salience_source == "llm"
    assert sum(rated.asks()) == 0, "what a turn leaves isn't counted as tried"
    assert sum(score_by_model.rate_memories() for _ in range(20)) == len(long) - 1
    assert rated.fake.calls == len(long) + 1


def test_what_is_scored_while_a_turn_is_held_keeps_the_turn(rated: Rated, monkeypatch: pytest.MonkeyPatch) -> None:
    rated.send(DOCTOR)
    take = score_by_model._claim_texts

    def take_early(tenant_id: UUID, version: str, *, is_probe: bool) -> Any:
        found = take(tenant_id, version, is_probe=is_probe)
        if not found[0]:
            monkeypatch.undo()
            rated.send(RAIN)
        return found

    monkeypatch.setattr(score_by_model, "_claim_texts", take_early)
    assert score_by_model.rate_memories() == 2


def test_two_slices_at_once_ask_about_nothing_twice(rated: Rated) -> None:
    rated.service.configure(score_batch_memories=2, llm_concurrency=2)
    texts = [f"memory number {number}" for number in range(30)]
    tenants = [rated.tenant, rated.service.tenant()]
    ids = [rated.send(*texts, tenant=tenant) for tenant in tenants]
    start = threading.Barrier(4)
    _ = model_clients.salience_scorer

    def at_once(_: int) -> int:
        start.wait()
        return sum(score_by_model.rate_memories() for _ in range(10))

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(at_once, range(4))) == 60
    asked = [text for call in rated.asked() for text in call]
    assert sorted(asked) == sorted(texts * 2)
    for tenant, theirs in zip(tenants, ids, strict=True):
        assert {rated.stored(memory_id, tenant).salience_source for memory_id in theirs} == {"llm"}


def test_while_one_asks_another_slice_leaves_its_process_to_the_rules(
    rated: Rated, monkeypatch: pytest.MonkeyPatch
) -> None:
    rated.send(DOCTOR)
    rated.send(RAIN, tenant=rated.service.tenant())
    meanwhile: list[int] = []
    during(monkeypatch, lambda: meanwhile.append(score_by_model.rate_memories()))
    assert score_by_model.rate_memories() == 2
    assert meanwhile == [0, 0]


# --- Costs ---


def test_a_spent_budget_leaves_the_word_to_the_rules_until_there_is_more(
    rated: Rated, monkeypatch: pytest.MonkeyPatch
) -> None:
    [memory_id] = rated.send(DOCTOR)
    other = rated.service.tenant()
    [theirs] = rated.send(RAIN, tenant=other)
    poor = {rated.tenant.tenant_id}
    monkeypatch.setattr(
        budget, "budget_state", lambda it: budget.BudgetState.HARD if it in poor else budget.BudgetState.OK
    )
    assert score_by_model.rate_memories() == 1
    assert rated.stored(theirs, other).salience_source == "llm"
    assert (rated.asked(), rated.sources(memory_id), rated.asks()) == ([[RAIN]], ["heuristic"], [0, 0])
    turn = rated.turn()
    assert turn is not None
    assert 0 < turn[1] <= 600
    assert score_by_model.rate_memories() == 0
    poor.clear()
    rated.lapse()
    assert score_by_model.rate_memories() == 1
    assert rated.sources(memory_id) == ["llm"]


def test_every_call_is_noted_the_useless_ones_too(rated: Rated, monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[tuple[str, str, Usage, dict[str, int]]] = []
    monkeypatch.setattr(
        budget, "spend_tokens", lambda _, purpose, model, usage, **counts: spent.append((purpose, model, usage, counts))
    )
    rated.service.configure(salience_model="small")
    rated.send(DOCTOR, DOCTOR)
    rated.fake.control.set(mode="not_json", times=1)
    score_by_model.rate_memories()
    [(purpose, model, usage, counts)] = spent
    assert (purpose, model, counts) == ("score", "small", {"memories": 1, "cache_hits": 1})
    assert usage.calls == 2
    assert usage.input_tokens > 0
