"""The sweep evaluates due memories only, as of one moment, once; a dry run predicts it without writing."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest

from app.domain.jobs import Job
from app.domain.policy.policy import Forgetting, Policy
from app.domain.tiers.decay_tier import TierThresholds
from app.errors import Invalid
from app.services.jobs import queue, runner
from app.services.memories import memories
from app.services.tiers import dry_run, sweep
from app.services.tiers.dry_run import PredictedMove
from app.store.core import database
from app.store.strength import states
from tests.service import Service
from tests.services import nights
from tests.services.aged import START, Aged, aged, days, place

__all__ = ["aged"]

AGES = (-200, -40, -25, -10, 0)
TIERS = ["deleted", "cold", "archived", "active", "active"]


def policy(profile: str, **parameters: Any) -> Policy:
    return Policy(forgetting=Forgetting(profile=profile, parameters=parameters))


def swept(aged: Aged, as_of: datetime | None = None, limit: int = 5000) -> tuple[int, Counter[str]]:
    """Run every slice of a sweep; return the number of memories evaluated and the counts of moves."""
    looked, moved = 0, Counter[str]()
    for _ in range(100):
        some, found = sweep.sweep(aged.tenant_id, as_of, limit)
        looked, moved = looked + some, moved + found
        if not some:
            return looked, moved
    raise AssertionError("it comes to no end")


def table(aged: Aged) -> list[tuple[Any, ...]]:
    """Return every value that a sweep could write."""
    return aged.service.rows("SELECT memory_state::text FROM memory_state ORDER BY memory_id") + aged.events()


@pytest.fixture
def ids(aged: Aged) -> list[UUID]:
    """Memories of all ages that were never swept."""
    return aged.remember(*AGES, salience=[0.0, 0.6, 0.5, 0.5, 0.5])


def test_each_memory_gets_the_tier_that_decay_asks_for(aged: Aged, ids: list[UUID]) -> None:
    assert swept(aged) == (5, Counter(deleted=1, cold=1, archived=1))
    assert aged.tiers() == TIERS
    assert {tier for (tier,) in aged.service.rows("SELECT tier FROM memory_state")} == {"active"}, "none is moved"
    strengths = aged.strengths()
    reported = [
        (ids[row], START, place("active"), place(TIERS[row]), pytest.approx(strengths[row])) for row in range(3)
    ]
    assert aged.events() == reported


def test_the_same_moment_again_changes_nothing(aged: Aged, ids: list[UUID]) -> None:
    swept(aged)
    before = table(aged)
    assert swept(aged) == (0, Counter())
    assert swept(aged, START) == (0, Counter())
    assert table(aged) == before


@pytest.mark.parametrize("profile", ["spec", "mnemex", "cmm"])
def test_a_sweep_moves_no_anchor_of_a_closed_form(
    service: Service, monkeypatch: pytest.MonkeyPatch, profile: str
) -> None:
    aged = Aged(service, monkeypatch, policy(profile))
    aged.remember(*AGES)
    before = aged.anchors()
    assert swept(aged)[0] == 5
    assert aged.anchors() == before


def test_a_model_in_ticks_is_anchored_anew_within_its_time(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    aged = Aged(service, monkeypatch, policy("memory_decay"))
    aged.remember(*(age - 0.3 for age in AGES))
    strengths = aged.strengths(at=days(2))
    swept(aged)
    aged.now = days(2)
    np.testing.assert_allclose(aged.strengths(), strengths, rtol=1e-12)
    moments = [anchor[0] for anchor in aged.anchors()]
    assert all(days(-2) < moment <= days(-1) for moment in moments[:4]), (
        "anchors lag, so that a late use still comes after them"
    )
    assert all(moment.hour == 16 for moment in moments), "ticks stay where they are: 0.3 days before midnight"
    aged.now = days(20)
    assert swept(aged)[0] == 5


def test_only_what_is_due_is_looked_at(aged: Aged, ids: list[UUID]) -> None:
    swept(aged)
    first = min(due for due in aged.due() if due is not None)
    aged.now = first - timedelta(milliseconds=1)
    assert swept(aged)[0] == 0
    aged.now = first
    assert swept(aged)[0] == 1
    assert first not in aged.due()


def test_a_row_that_comes_up_has_crossed_what_it_came_up_for(aged: Aged) -> None:
    """Swept whenever it is due, a memory passes through its tiers, each to the millisecond."""
    aged.remember(-2, salience=0.0)
    for _ in range(20):
        swept(aged)
        [due] = aged.due()
        if due is None:
            break
        aged.now = due
    assert aged.due() == [None]
    assert aged.tiers() == ["deleted"]
    moved = aged.events()
    assert [row[3] for row in moved] == [1, 2, 3]
    thresholds = [0.30, 0.15]
    for (_, at, _, _, strength), threshold in zip(moved, thresholds, strict=False):
        assert strength == pytest.approx(threshold, abs=1e-6)
        assert aged.strengths(at=at)[0] < threshold
        assert aged.strengths(at=at - timedelta(milliseconds=2))[0] >= threshold
    assert moved[2][1] == pytest.approx(START + timedelta(days=88), abs=timedelta(milliseconds=2)), (
        "due at an age of 90 days"
    )


def test_slices_are_the_longest_due_first_and_miss_nothing(aged: Aged) -> None:
    aged.remember(*np.linspace(-300, 0, 23))
    swept(aged, limit=5)
    assert aged.service.one("SELECT count(*) FROM memory_state WHERE next_due_at <= %s", START) == 0
    aged.service.rows("UPDATE memory_state SET next_due_at = created_at")
    assert sweep.sweep(aged.tenant_id, limit=5)[0] == 5
    left = [due is not None and due < START for due in aged.due()]
    assert left == [False] * 5 + [True] * 17 + [False]


def test_what_somebody_has_locked_is_left_to_the_next_sweep(aged: Aged, ids: list[UUID]) -> None:
    with database.tenant(aged.tenant_id) as tx:
        states.lock(tx, aged.tenant_id, ids[:2])
        assert swept(aged)[0] == 3
    assert swept(aged)[0] == 2
    assert aged.tiers() == TIERS


# --- As of another moment ---


def test_catching_up_at_earlier_moments_ends_at_the_same(aged: Aged, ids: list[UUID]) -> None:
    for day in (-30, -12, -11, -1, 0):
        swept(aged, days(day))
    assert aged.tiers() == TIERS
    assert [row[1] for row in aged.events()] == sorted(row[1] for row in aged.events())
    for earlier, later in pairwise(row for row in aged.events() if row[0] == ids[0]):
        assert earlier[3] == later[2]


def test_a_memory_is_not_looked_at_as_of_before_it_was_there(aged: Aged, ids: list[UUID]) -> None:
    assert swept(aged, days(-30))[0] == 2
    assert aged.tiers()[2:] == ["active"] * 3


def test_what_was_used_later_is_left_as_the_use_has_left_it(aged: Aged, ids: list[UUID]) -> None:
    aged.use(ids)
    before = table(aged)
    assert swept(aged, days(-1)) == (0, Counter())
    assert table(aged) == before
    assert swept(aged)[0] == 5


def test_what_a_later_policy_holds_is_not_judged_by_an_earlier_one(aged: Aged, ids: list[UUID]) -> None:
    aged.decide(Policy(tiers=TierThresholds(archived_below=0.9)), -5)
    swept(aged)
    before = table(aged)
    assert swept(aged, days(-6)) == (0, Counter())
    assert table(aged) == before


def test_a_moment_to_come_is_for_a_dry_run_alone(aged: Aged, ids: list[UUID]) -> None:
    with pytest.raises(Invalid) as refused:
        queue.evaluation_parameters(START + timedelta(seconds=1))
    assert refused.value.errors[0].field == "as_of"
    assert queue.evaluation_parameters(START) == {"as_of": "2026-01-01T00:00:00+00:00"}
    assert queue.evaluation_parameters(None) == {}


# --- Uses and deletions ---


def test_a_use_that_changes_the_tier_is_seen_by_the_next_sweep(aged: Aged, ids: list[UUID]) -> None:
    swept(aged)
    aged.use(ids[:2])
    assert swept(aged) == (2, Counter(archived=2))
    assert aged.tiers() == ["archived", "archived", *TIERS[2:]]


def test_a_use_that_ends_a_slow_curve_brings_the_next_moment_nearer(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half-lives of a year became some of three days; a use ends the factor that preserved the strength."""
    aged = Aged(service, monkeypatch, policy("mnemex", half_life_days=365))
    used, _ = aged.remember(-150, -150)
    aged.decide(policy("mnemex"), 0)
    swept(aged)
    _, before = aged.due()
    assert before is not None
    assert before > days(60)
    aged.use([used])
    swept(aged)
    after, _ = aged.due()
    assert after is not None
    assert after < days(20), "due as early as a new memory"
    while after is not None and after < days(30):
        aged.now = after
        swept(aged)
        after, _ = aged.due()
    assert aged.tiers() == ["cold", "active"], "with the former due date it would still be active"


def test_deleted_memories_never_come_up(aged: Aged, ids: list[UUID]) -> None:
    swept(aged)
    memories.delete(aged.tenant_id, ids[1])
    aged.now = days(400)
    assert all(move.memory_id != ids[1] for move in sweep.preview_sweep(aged.tenant_id, None, None, 100).moves)
    before = len(aged.events())
    swept(aged)
    assert all(row[0] != ids[1] for row in aged.events()[before:])
    found = aged.service.rows("SELECT wanted_tier, next_due_at = 'infinity' FROM memory_state ORDER BY memory_id")
    assert found[1] == ("cold", True)


def test_tenants_are_swept_apart(aged: Aged, ids: list[UUID]) -> None:
    assert sweep.sweep(aged.service.tenant().tenant_id)[0] == 0
    assert swept(aged)[0] == 5


# --- Dry runs ---


def previewed(aged: Aged, as_of: datetime | None = None, limit: int = 100) -> tuple[list[PredictedMove], Counter[str]]:
    """Return the moves and counts of every page of a dry run."""
    moves: list[PredictedMove] = []
    counts, after = Counter[str](), None
    while True:
        found = sweep.preview_sweep(aged.tenant_id, as_of, after, limit)
        assert len(found.moves) <= limit
        moves += found.moves
        counts.update(found.counts)
        after = found.following
        if after is None:
            return moves, counts


def test_a_dry_run_says_what_a_sweep_then_does(aged: Aged, ids: list[UUID]) -> None:
    before = table(aged)
    moves, counts = previewed(aged)
    assert table(aged) == before
    assert counts == {"looked_at": 5, "active": 0, "archived": 1, "cold": 1, "deleted": 1}
    assert [(move.memory_id, move.before, move.after) for move in moves] == [
        (ids[row], "active", TIERS[row]) for row in range(3)
    ]
    assert moves[1].why == f"strength {aged.strengths(ids[1])[0]:.4g} is below 0.15"
    assert "200 days old" in moves[0].why
    assert swept(aged) == (5, Counter(deleted=1, cold=1, archived=1))
    assert previewed(aged) == ([], Counter(dict.fromkeys(counts, 0)))


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_its_pages_hold_each_change_once(aged: Aged, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(dry_run, "ROWS", 4)
    ids = aged.remember(*np.linspace(-60, 0, 19))
    moves, counts = previewed(aged, limit=limit)
    whole = sweep.preview_sweep(aged.tenant_id, None, None, 100)
    assert (moves, counts) == (whole.moves, whole.counts)
    assert counts["looked_at"] == len(ids)


def test_it_looks_ahead_as_if_nothing_happened_until_then(aged: Aged, ids: list[UUID]) -> None:
    swept(aged)
    aged.decide(Policy(tiers=TierThresholds(deleted_below=0, cold_below=0, archived_below=0.5)), 50)
    by_now, later = previewed(aged, days(49))[0], previewed(aged, days(51))[0]
    assert {(move.before, move.after) for move in by_now} == {("archived", "cold"), ("active", "cold")}
    assert ("deleted", "archived") in {(move.before, move.after) for move in later}, "evaluated under that day's policy"
    aged.now = days(49)
    swept(aged)
    assert previewed(aged) == ([], Counter(looked_at=0, active=0, archived=0, cold=0, deleted=0))
    assert [tier for tier in aged.tiers() if tier != "deleted"] == ["cold"] * 4


def test_it_waits_for_nobody(aged: Aged, ids: list[UUID]) -> None:
    with database.tenant(aged.tenant_id) as tx:
        states.lock(tx, aged.tenant_id, ids)
        assert len(previewed(aged)[0]) == 3


# --- Jobs and nights ---


def run(aged: Aged, parameters: dict[str, Any] | None = None) -> list[tuple[int, dict[str, Any]]]:
    """Run a sweep job; return the count and the state of each step."""
    job = Job(uuid4(), aged.tenant_id, sweep.KIND, parameters or {}, {}, None, 0)
    steps = []
    while True:
        step = runner.KINDS[job.kind].step(job)
        steps.append((step.done, step.state))
        if step.finished:
            return steps
        job = Job(job.job_id, job.tenant_id, job.kind, job.parameters, step.state, step.total, job.done + step.done)


def test_a_job_is_of_one_moment_from_its_first_step_to_its_last(
    aged: Aged, ids: list[UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.strength.rebase.STEP_SECONDS", 0)
    slices = sweep.sweep

    def slowly(tenant_id: UUID, as_of: datetime) -> tuple[int, Counter[str]]:
        aged.now += timedelta(days=30)
        return slices(tenant_id, as_of, 2)

    monkeypatch.setattr(sweep, "sweep", slowly)
    steps = run(aged)
    assert [done for done, _ in steps if done] == [2, 2, 1]
    assert {state["as_of"] for _, state in steps} == {START.isoformat()}
    assert aged.tiers() == TIERS


def test_a_job_may_be_of_an_earlier_moment(aged: Aged, ids: list[UUID]) -> None:
    run(aged, queue.evaluation_parameters(days(-30)))
    assert {row[1] for row in aged.events()} == {days(-30)}


def test_a_night_looks_at_what_is_due(aged: Aged, ids: list[UUID]) -> None:
    assert nights.run(aged.tenant_id)["sweep"] == 5
    assert aged.tiers() == TIERS
    assert nights.run(aged.tenant_id)["sweep"] == 0


# --- States at their limits ---


@pytest.mark.parametrize("profile", ["spec", "mnemex", "cmm", "memory_decay"])
def test_no_valid_row_stops_a_sweep(service: Service, monkeypatch: pytest.MonkeyPatch, profile: str) -> None:
    aged = Aged(service, monkeypatch, policy(profile))
    far = datetime(1, 1, 2, tzinfo=UTC)
    aged.remember(
        *[-1] * 8, salience=[0, 1, 1e-37, 0.5] * 2, level=[-1e9, 1e9, -400, 0] * 2, kind=[0, 1, 2, 3, 4, 0, 1, 2]
    )
    service.rows("UPDATE memory_state SET access_count = 2147483647, multiplier = 1e-37 WHERE kind = 1")
    service.rows(
        "UPDATE memory_state SET created_at = %s, accessed_at = %s, anchored_at = %s WHERE kind <> 2", *[far] * 3
    )
    service.rows("UPDATE memory_state SET pace = 1000, multiplier = 0, retrieval = 0, stability = 1 WHERE kind = 3")
    assert previewed(aged, datetime(9999, 12, 31, tzinfo=UTC))[1]["looked_at"] == 8
    aged.now = days(1)
    assert swept(aged)[0] == 8
    aged.decide(policy("spec", base_per_day=100.0, never_accessed=100.0, kinds={"episodic": 100.0}), 2)
    aged.now = days(3)
    assert sum(done for done, _ in run(aged)) == 8
    assert np.isfinite(aged.strengths()).all()
    [levels] = zip(*service.rows("SELECT level FROM memory_state"), strict=True)
    assert max(map(abs, levels)) <= 1e9
