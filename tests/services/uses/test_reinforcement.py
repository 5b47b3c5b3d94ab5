"""Reinforcement: each use counts once and in order, whichever way it arrived."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, cast
from uuid import UUID, uuid4

import psycopg
import pytest
from sqlalchemy.exc import DataError, OperationalError

from app.clients.redis.connection import HELD
from app.clients.redis.stream import stream_reader
from app.domain.dynamics.profiles import PROFILES
from app.domain.ingest import uses
from app.domain.ingest.ids import generate_base
from app.domain.ingest.uses import Use
from app.services.ingest import dead_letter_replay, drain
from app.services.memories import memories
from app.services.monitoring import stats
from app.services.tenants import tenants
from app.store.core import database
from app.store.ingest.dead_letters import LetterFilter
from app.store.memories import history
from app.store.tenants import policies
from tests.service import Service
from tests.services.used_memories import Shop, policy, shop, shop_of

__all__ = ["shop"]

MINUTE = 60.0
LONG_AGO = datetime.now(UTC) - timedelta(days=100)
DAY = 86_400.0


# --- Idempotence and order ---


def test_a_use_makes_a_memory_stronger_and_is_entered(shop: Shop) -> None:
    [used, other] = shop.stored("used", "other", age_days=20)
    shop.used(used)
    assert shop.counts(used, other) == [1, 0]
    row = shop.row(used)
    assert row.accessed_at == row.anchored_at
    assert shop.now() - MINUTE < row.accessed_at <= shop.now()
    [(kind, before, after)] = shop.history(used)
    assert kind == "use"
    assert after == pytest.approx(before + 0.15 * (1 - before), abs=1e-6)
    assert 0.1 < before < 0.9
    assert shop.history(other) == []
    assert shop.service.is_idle()


def test_an_envelope_that_comes_again_changes_nothing(service: Service) -> None:
    shop = shop_of(service, policy(refractory=0))
    [memory_id] = shop.stored("x", age_days=3)
    base = shop.report_uses(memory_id)
    shop.report_uses(memory_id, base=base)
    drain.drain_streams()
    before = shop.row(memory_id)
    shop.used(memory_id, base=base)
    assert shop.row(memory_id) == before
    assert shop.counts(memory_id) == [1]
    assert len(shop.history(memory_id)) == 1


class Killed(BaseException):
    """Simulates SIGKILL: nothing after it runs."""


def test_a_crash_between_commit_and_settling_counts_no_use_twice(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = shop_of(service, policy(refractory=0))
    [memory_id] = shop.stored("x")
    shop.report_uses(memory_id)
    shop.report_uses(memory_id)

    def reach(name: str, *_: object) -> None:
        if name == "drain.before_settle":
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("app.failpoints.trigger", reach)
        with pytest.raises(Killed):
            drain.drain_streams()
    held = cast("list[bytes]", service.redis.zrange(HELD, 0, -1))
    service.redis.zadd(HELD, dict.fromkeys(held, 0))
    drain.drain_streams()
    assert shop.counts(memory_id) == [2]
    assert service.is_idle()


def test_a_memory_is_touched_in_the_same_turn_as_it_is_stored(shop: Shop) -> None:
    ids = []
    for given in ({"text": "plain"}, {"text": "keyed", "external_id": "k"}):
        [memory_id] = shop.service.send(shop.tenant_id, given)
        shop.report_uses(memory_id)
        ids.append(memory_id)
    drain.drain_streams()
    assert shop.counts(*ids) == [1, 1]


def test_uses_of_one_request_count_in_the_order_of_time(service: Service) -> None:
    shop = shop_of(service, policy(refractory=0))
    [one, other] = shop.stored("one", "other", age_days=5)
    now = shop.now()
    moments = [now - DAY, now - 3 * DAY, now - 2 * DAY]
    shop.used(*(Use(one, at) for at in moments))
    for at in sorted(moments):
        shop.used(Use(other, at))
    assert [kind for kind, _, _ in shop.history(one)] == ["use"] * 3
    assert shop.row(one) == shop.row(other)
    assert shop.row(one).accessed_at == pytest.approx(now - DAY, abs=1e-5)


def test_a_late_use_is_counted_and_nothing_else(service: Service) -> None:
    shop = shop_of(service, policy(refractory=0))
    [memory_id] = shop.stored("x", age_days=9)
    now = shop.now()
    shop.used(Use(memory_id, now - DAY))
    shop.used(Use(memory_id, now - 2 * DAY))
    row = shop.row(memory_id)
    assert row.count == 2
    assert row.accessed_at == pytest.approx(now - DAY, abs=1e-5)
    assert row.anchored_at >= now - 1, "earlier decay isn't recomputed"
    [_, (kind, before, after)] = shop.history(memory_id)
    assert kind == "late_use"
    assert after == pytest.approx(before, abs=1e-6)


def test_a_use_in_the_future_counts_as_now(shop: Shop) -> None:
    [memory_id] = shop.stored("x", age_days=2)
    shop.used(Use(memory_id, shop.now() + 30 * DAY))
    assert shop.row(memory_id).accessed_at <= shop.now()
    assert shop.counts(memory_id) == [1]


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_however_requests_come_in_turns_the_outcome_is_the_same(service: Service, profile: str) -> None:
    random = Random(profile)
    now = time.time()
    moments = sorted(now - random.uniform(0, 90 * DAY) for _ in range(24))
    moments += moments[-1:] * 3  # the latest moment twice more, from other sessions
    kept = []
    for turns in (1, 5, len(moments)):
        shop = shop_of(service, policy(profile))
        [memory_id] = shop.stored({"text": "x", "tags": ["a"], "salience": 0.5}, age_days=100)
        service.rows("UPDATE memory_state SET created_at = %s, accessed_at = %s, anchored_at = %s", *[LONG_AGO] * 3)
        for n, at in enumerate(moments):
            shop.report_uses(Use(memory_id, at), session=f"{n % 5}", context_tags=("b",), boost=n % 7 == 0)
            if turns > 1 and n % (len(moments) // turns) == 0:
                drain.drain_streams()
        drain.drain_streams()
        kept.append(shop.row(memory_id))
        assert {kind for kind, _, _ in shop.history(memory_id)} == {"use"}
    assert kept[0].count == len(moments)
    assert kept[1:] == kept[:1] * 2


# --- Refractory time ---


def test_a_session_reinforces_a_memory_once_in_a_while(shop: Shop) -> None:
    [memory_id] = shop.stored("x", age_days=1)
    now = shop.now()
    shop.used(Use(memory_id, now - 600), Use(memory_id, now - 600 + 59), session="a")
    assert shop.counts(memory_id) == [1], "once within a request"
    shop.used(Use(memory_id, now - 600 + 30), session="a")
    assert shop.counts(memory_id) == [1], "not again in the next request"
    shop.used(Use(memory_id, now - 600 - 59), session="a")
    assert shop.counts(memory_id) == [1], "not for an earlier use nearby either"
    shop.used(Use(memory_id, now - 600 + 30), session="b")
    shop.used(Use(memory_id, now - 600 + 40))
    shop.used(Use(memory_id, now - 600 + 50))
    assert shop.counts(memory_id) == [3], "other sessions count separately; all uses without one share a session"
    shop.used(Use(memory_id, now - 600 + 60), session="a")
    assert shop.counts(memory_id) == [4], "after the refractory time the session counts again"
    assert shop.metric("refractory_uses") == 4


def test_a_late_use_that_was_told_twice_is_counted_once(shop: Shop) -> None:
    [memory_id] = shop.stored("x", age_days=30)
    now = shop.now()
    shop.used(memory_id)
    shop.used(Use(memory_id, now - 9 * DAY))
    shop.used(Use(memory_id, now - 9 * DAY + 1))
    assert shop.counts(memory_id) == [2]


def test_the_refractory_time_is_the_policys(service: Service) -> None:
    for seconds, count in ((0, 3), (5, 2), (3600, 1)):
        shop = shop_of(service, policy(refractory=seconds))
        [memory_id] = shop.stored("x", age_days=1)
        now = shop.now()
        for at in (now - 100, now - 99, now - 90):
            shop.used(Use(memory_id, at))
        assert shop.counts(memory_id) == [count], seconds


# --- Ids and owners ---


def test_ids_of_nothing_that_is_there_are_left_out_and_counted(shop: Shop) -> None:
    [kept, deleted] = shop.stored("kept", "deleted")
    memories.delete(shop.tenant_id, deleted)
    other = Shop(shop.service, shop.service.tenant())
    [foreign] = other.stored("foreign")
    shop.used(uuid4(), deleted, kept, foreign)
    assert shop.counts(kept, deleted) == [1, 0]
    assert other.counts(foreign) == [0]
    assert shop.metric("unknown_uses") == 3
    assert shop.service.letters(shop.tenant_id) == []


def test_an_alias_is_a_use_of_the_memory_that_it_stands_for(shop: Shop) -> None:
    [first] = shop.stored({"text": "x", "external_id": "k"})
    [alias] = shop.stored({"text": "y", "external_id": "k"})
    shop.used(alias, first)
    assert shop.counts(first) == [1], "it is one memory, used once"
    [late] = shop.stored({"text": "z", "external_id": "k"})
    shop.used(Use(late), session="s")
    assert shop.counts(first) == [2]


# --- Models of forgetting ---


@pytest.mark.parametrize("profile", PROFILES)
def test_every_model_reinforces(service: Service, profile: str) -> None:
    shop = shop_of(service, policy(profile))
    [memory_id] = shop.stored("x", age_days=40)
    shop.used(memory_id)
    [(kind, before, after)] = shop.history(memory_id)
    assert kind == "use"
    assert after > before
    assert shop.counts(memory_id) == [1]
    touched = shop.touch(memory_id, session="another")
    assert touched.access_count == 2
    assert touched.strength[1] >= touched.strength[0] >= after - 1e-3


def test_what_is_used_in_another_domain_is_boosted(service: Service) -> None:
    shop = shop_of(service, policy("mnemex", refractory=0))
    given: list[dict[str, Any]] = [
        {"text": "x", "tags": ["tea", "mint"]},
        {"text": "y", "tags": ["tea", "work"]},
        {"text": "z"},
    ]
    [elsewhere, at_home, without] = shop.stored(*given, age_days=2)
    shop.used(elsewhere, at_home, without, context_tags=("work", "tax"))
    assert [shop.row(each).multiplier for each in (elsewhere, at_home, without)] == pytest.approx([1.1, 1, 1])
    assert [shop.row(each).elsewhere for each in (elsewhere, at_home, without)] == [1, 0, 0]
    shop.used(Use(elsewhere, shop.now() - DAY), context_tags=("work",))
    assert shop.row(elsewhere).multiplier == pytest.approx(1.1), "a late one isn't boosted"
    assert shop.row(elsewhere).elsewhere == 1
    shop.used(at_home, boost=True)
    assert shop.row(at_home).multiplier == pytest.approx(1.1)
    assert shop.row(at_home).elsewhere == 0
    for _ in range(12):
        shop.used(at_home, boost=True)
    assert shop.row(at_home).multiplier == 2


def test_a_searchs_place_margin_and_words_reach_the_model(service: Service) -> None:
    parameters = {"consolidation": "retrieval_margin_bm25_fraction", "gain_direct": 0.0}
    shop = shop_of(service, policy("memory_decay", parameters))
    ids = shop.stored("near and named", "near", "named", age_days=40)
    uses = [Use(ids[0], margin=0.5, lexical=True), Use(ids[1], margin=0.5), Use(ids[2], place=2, lexical=True)]
    shop.used(*uses)
    gains = [after - before for memory_id in ids for _, before, after in shop.history(memory_id)]
    assert gains == [pytest.approx(0.025, abs=1e-6), 0, 0]


def test_a_use_after_a_change_of_policy_brings_the_memory_to_it(service: Service) -> None:
    """The memory's past stays, and the sweep evaluates it soon."""
    shop = shop_of(service, policy())
    [used, quiet] = shop.stored("used", "quiet", age_days=3)
    service.rows("UPDATE memory_state SET next_due_at = now() + interval '1 minute'")
    due = shop.row(used).due
    shop.used(used, session="before")
    assert shop.row(used).due == due
    with database.tenant(shop.tenant_id) as tx:
        policies.add(tx, shop.tenant_id, 2, policy("mnemex"))
    before = shop.history(used)[-1][2]
    shop.used(used, quiet)
    assert (shop.row(used).version, shop.row(used).due) == (2, "-infinity")
    assert (shop.row(quiet).version, shop.row(quiet).due) == (2, "-infinity")
    assert shop.history(used)[-1][1] == pytest.approx(before, abs=1e-4)
    service.rows("UPDATE memory_state SET next_due_at = now() + interval '1 minute'")
    due = shop.row(used).due
    shop.used(used, session="later")
    assert shop.row(used).due == due


def test_a_use_that_changes_the_tier_lets_the_sweep_look_at_once(service: Service) -> None:
    shop = shop_of(service, policy(refractory=0))
    [memory_id] = shop.stored("x", age_days=1)
    service.rows("UPDATE memory_state SET next_due_at = 'infinity', wanted_tier = 'archived'")
    shop.used(memory_id)
    assert shop.row(memory_id).due == "-infinity"


# --- Failures ---


def test_poison_is_set_aside_and_its_neighbours_are_applied(shop: Shop) -> None:
    [memory_id] = shop.stored("x")
    bodies = [b"no JSON", b'{"uses":[],"session":1e30}', b'{"uses":[{"id":"x"}],"session":1}', b'{"uses":7}']
    for n, body in enumerate(bodies):
        shop.post(body, generate_base(n, bytes(8)))
    shop.post(b'{"uses":[],"session":1}', generate_base(9, bytes(8)), memories=1)
    shop.used(memory_id)
    assert shop.counts(memory_id) == [1]
    reasons = sorted(reason for _, reason, _ in shop.service.letters(shop.tenant_id))
    count = "envelope body and memory count differ"
    assert reasons == ["Invalid", "Invalid", "Invalid", "Unreadable", count]
    assert shop.service.is_idle()


def test_what_failed_is_a_dead_letter_and_its_replay_counts_at_its_time(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    [cursed, other] = shop.stored("cursed", "other", age_days=1)
    add = history.add

    def refuse(tx: Any, tenant_id: UUID, kind: Any, memory_ids: Any, change: Any) -> None:
        if cursed in memory_ids:
            raise DataError("INSERT", {}, psycopg.errors.DataException("refused"))
        add(tx, tenant_id, kind, memory_ids, change)

    with monkeypatch.context() as patched:
        patched.setattr(history, "add", refuse)
        reported = time.time()
        shop.report_uses(cursed)
        shop.report_uses(other)
        [stored_with_it] = shop.service.send(shop.tenant_id, "stored all the same")
        assert stats.tenant_stats(shop.tenant_id).pending["ingest"] == 1
        drain.drain_streams()
    assert shop.counts(cursed, other, stored_with_it) == [0, 1, 0]
    [letter] = dead_letter_replay.list_letters(
        shop.tenant_id, LetterFilter(), discarded=False, older_than=None, limit=9
    )[0]
    assert (letter.stage, letter.reason, letter.attempts, letter.memories) == ("drain", "DataError", 3, 0)
    assert letter.replayable
    dead_letter_replay.replay_letter(shop.tenant_id, letter.letter_id)
    drain.drain_streams()
    assert shop.counts(cursed, other) == [1, 1]
    assert abs(shop.row(cursed).accessed_at - reported) < 30
    assert shop.service.letters(shop.tenant_id) == []
    assert shop.service.is_idle()


def test_while_the_database_is_away_nothing_is_lost(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    [memory_id] = shop.stored("x")
    shop.report_uses(memory_id)

    def away(*_: object) -> None:
        raise OperationalError("SELECT", {}, psycopg.OperationalError("the connection is closed"))

    with monkeypatch.context() as patched:
        patched.setattr(history, "add", away)
        for _ in range(5):
            with pytest.raises(OperationalError):
                drain.drain_streams()
    drain.drain_streams()
    assert shop.counts(memory_id) == [1]
    assert shop.service.letters(shop.tenant_id) == []


def test_a_turn_takes_touches_by_their_size(shop: Shop) -> None:
    """Touches hold no memories, but a lease doesn't last for a million of them."""
    shop.service.configure(drain_rows=100)
    ids = shop.stored(*(f"{n}" for n in range(50)))
    for _ in range(40):
        shop.report_uses(*ids, session=f"{uuid4()}")
    turn = stream_reader().claim(first=True)
    assert turn is not None
    assert len(turn.fresh) < 8


# --- Immediate touches ---


def test_a_touch_answers_what_it_has_done(service: Service) -> None:
    shop = shop_of(service, policy("mnemex"))
    [memory_id] = shop.stored("x", age_days=10)
    done = shop.touch(memory_id, boost=True)
    assert (done.id, done.access_count, done.why) == (memory_id, 1, None)
    assert done.multiplier == pytest.approx(1.1)
    assert done.score[0] < done.strength[1] == 1 < done.score[1]
    again = shop.touch(memory_id, boost=True)
    assert (again.why, again.access_count) == ("refractory", 1)
    assert again.score[0] == again.score[1] == pytest.approx(done.score[1], rel=1e-3)
    late = shop.touch(memory_id, used_at=datetime.now(UTC) - timedelta(days=3))
    assert (late.why, late.access_count) == ("late", 2)
    assert shop.touch(memory_id, session="another").why is None


def test_touches_at_once_and_through_the_queue_share_their_refractory_time(shop: Shop) -> None:
    [memory_id] = shop.stored("x", age_days=10)
    shop.touch(memory_id, session="s")
    shop.used(memory_id, session="s")
    assert shop.counts(memory_id) == [1]


def test_tenants_forget_apart(service: Service) -> None:
    """Equal session names of two tenants are different sessions."""
    one, other = (tenants.create(name)[0].tenant_id for name in "ab")
    assert uses.session_digest(one, "s") != uses.session_digest(other, "s")
    assert uses.session_digest(one, None) != uses.session_digest(one, "s")
