"""Rebase: memories under an older policy move to the policy in force without a change of strength."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from app.domain.jobs import Job, Step
from app.domain.policy.policy import Forgetting, Policy
from app.domain.tiers.decay_tier import TierThresholds
from app.domain.tiers.protection import Protection
from app.services.jobs import queue, runner
from app.services.memories import memories
from app.services.strength import rebase
from app.services.tiers import sweep
from app.store.core import database
from app.store.core.binary_arrays import driver_connection
from app.store.enrichment.work_queue import NIL
from app.store.strength import due_pages, states
from tests.service import Service
from tests.services import nights
from tests.services.aged import START, Aged, aged, days

__all__ = ["aged"]

HASTY = Policy(forgetting=Forgetting(parameters={"base_per_day": 0.3}))
STRICT = Policy(tiers=TierThresholds(0.9, 0.8, 0.01), protection=Protection(grace_days=0))


@pytest.fixture
def many(aged: Aged, monkeypatch: pytest.MonkeyPatch) -> Aged:
    """Twenty-three memories in pages of five, swept under the first policy; the second policy holds since day 0."""
    monkeypatch.setattr(rebase, "ROWS", 5)
    aged.remember(*np.linspace(-60, -1, 23))
    nights.run(aged.tenant_id)
    aged.decide(HASTY, 0)
    aged.now = days(1)
    return aged


class Run:
    """A job, stepped by hand."""

    def __init__(self, aged: Aged, kind: str = rebase.KIND, parameters: dict[str, Any] | None = None) -> None:
        self.job = Job(uuid4(), aged.tenant_id, kind, parameters or {}, {}, None, 0)
        self.steps: list[Step] = []

    def step(self) -> bool:
        """Run one step, and return True if the job is unfinished."""
        job, done = self.job, runner.KINDS[self.job.kind].step(self.job)
        self.steps.append(done)
        total = job.total if done.total is None else done.total
        self.job = Job(job.job_id, job.tenant_id, job.kind, job.parameters, done.state, total, job.done + done.done)
        return not done.finished

    def end(self) -> Run:
        while self.step():
            pass
        return self


def versions(aged: Aged) -> list[int]:
    return [anchor[-1] for anchor in aged.anchors()]


def is_due(aged: Aged, version: int) -> bool:
    with database.tenant(aged.tenant_id) as tx:
        return rebase.is_due(tx, aged.tenant_id, version)


@pytest.mark.parametrize("profile", ["spec", "mnemex", "cmm", "memory_decay"])
@pytest.mark.parametrize("following", ["spec", "mnemex", "cmm", "memory_decay"])
def test_no_strength_changes_by_it_now_or_later(
    service: Service, monkeypatch: pytest.MonkeyPatch, profile: str, following: str
) -> None:
    aged = Aged(service, monkeypatch, Policy(forgetting=Forgetting(profile=profile)))
    aged.remember(*np.linspace(-60, -1, 23), access_count=[n % 4 for n in range(23)])
    aged.decide(Policy(forgetting=Forgetting(profile=following)), 0)
    aged.now = days(1)
    before = [aged.strengths(at=days(day)) for day in (1, 2.5, 40)]
    Run(aged).end()
    for day, strengths in zip((1, 2.5, 40), before, strict=True):
        np.testing.assert_allclose(aged.strengths(at=days(day)), strengths, rtol=1e-9, atol=1e-12)
    assert set(versions(aged)) == {2}


def test_all_that_is_older_is_moved_page_by_page_and_counted(many: Aged) -> None:
    run = Run(many).end()
    assert (run.job.total, run.job.done) == (23, 23)
    assert set(versions(many)) == {2}
    again = Run(many).end()
    assert (again.job.total, again.job.done) == (0, 0)


def test_a_step_leaves_off_in_time_and_the_next_goes_on(many: Aged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebase, "STEP_SECONDS", 0)
    run = Run(many)
    run.step()
    assert (run.job.total, run.job.done, versions(many).count(2)) == (23, 5, 5)
    assert [step.done for step in run.end().steps] == [5, 5, 5, 5, 3]


def test_a_step_that_is_done_again_after_a_crash_does_no_harm(many: Aged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebase, "STEP_SECONDS", 0)
    strengths = many.strengths()
    run = Run(many)
    run.step()
    lost = run.job
    run.step()
    run.job = lost
    run.end()
    assert set(versions(many)) == {2}
    np.testing.assert_allclose(many.strengths(), strengths, rtol=1e-9)


def test_a_policy_that_comes_meanwhile_is_the_one_moved_to(many: Aged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebase, "STEP_SECONDS", 0)
    run = Run(many)
    run.step()
    run.step()
    many.decide(STRICT, 1.5)
    many.now = days(2)
    run.end()
    assert set(versions(many)) == {3}
    assert run.job.total == 10 + 23
    assert run.job.done == 10 + 23


def test_tiers_and_bounds_are_those_of_the_policy_in_force(aged: Aged) -> None:
    ids = aged.remember(-12, -4, -4.5, 0)
    nights.run(aged.tenant_id)
    before = aged.due()
    aged.decide(STRICT, 0)
    run = Run(aged).end()
    counts = run.steps[-1].counts
    assert counts == {"archived": 2, "cold": 1}
    assert aged.tiers() == ["cold", "archived", "archived", "active"]
    assert [row[:4] for row in aged.events()] == [(ids[0], START, 0, 2), (ids[1], START, 0, 1), (ids[2], START, 0, 1)]
    after = aged.due()
    assert after != before
    assert sweep.sweep(aged.tenant_id) == (0, {})
    many_days = [due for due in after if due is not None]
    assert min(many_days) > START


def test_what_is_used_or_sent_meanwhile_needs_no_rebase(many: Aged) -> None:
    ids = [row[0] for row in many.service.rows("SELECT memory_id FROM memory_state ORDER BY memory_id")]
    many.use(ids[:3])
    many.change(ids[3:5], salience=0.9)
    assert versions(many)[:6] == [2, 2, 2, 2, 2, 1]
    assert Run(many).end().job.done == 18


def test_deleted_memories_are_left_out(many: Aged) -> None:
    [memory_id] = many.service.rows("SELECT memory_id FROM memory_state ORDER BY memory_id LIMIT 1")[0]
    memories.delete(many.tenant_id, memory_id)
    assert Run(many).end().job.done == 22
    assert versions(many)[0] == 1
    assert many.service.one("SELECT next_due_at = 'infinity' FROM memory_state WHERE tier = 'deleted'")


def test_one_that_is_deleted_while_the_rebase_waits_for_it_stays_deleted(many: Aged) -> None:
    """The rebase waits for the row's lock, and then reads the row as the deletion left it."""
    [memory_id] = many.service.rows("SELECT memory_id FROM memory_state ORDER BY memory_id LIMIT 1")[0]
    with database.tenant(many.tenant_id) as tx:
        driver_connection(tx).execute("UPDATE memory_state SET tier = 'deleted' WHERE memory_id = %s", [memory_id])
        with database.tenant(many.tenant_id) as other:
            held = due_pages.list_page(other, many.tenant_id, "older", 0, 2, after=NIL, limit=5)
            assert memory_id in held.ids, "a reader without a lock doesn't see the deletion yet"
    with database.tenant(many.tenant_id) as tx:
        assert memory_id not in states.lock_older(tx, many.tenant_id, 2, NIL, 5).ids


# --- When a rebase is due ---


def test_it_is_due_until_it_has_been_done_for_the_version_or_a_later_one(many: Aged) -> None:
    assert (is_due(many, 0), is_due(many, 1), is_due(many, 2)) == (False, False, True)
    Run(many).end()
    assert not is_due(many, 2)
    many.decide(STRICT, 1)
    assert is_due(many, 3)
    Run(many).end()
    many.service.rows("UPDATE policies SET rebased_at = NULL WHERE version = 2")
    assert not is_due(many, 2), "the rebase to a later version includes it"


def test_an_unfinished_one_is_due_still(many: Aged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebase, "STEP_SECONDS", 0)
    Run(many).step()
    assert is_due(many, 2)


def test_a_night_after_a_new_policy_rebases_before_it_sweeps(many: Aged) -> None:
    """The due date that the older policy gave each memory is too late."""
    many.service.rows("UPDATE memory_state SET next_due_at = 'infinity'")
    assert nights.run(many.tenant_id)["sweep"] == 23
    assert set(versions(many)) == {2}
    assert None not in many.due()[-5:]
    assert nights.run(many.tenant_id)["sweep"] == 0


def test_a_sweep_job_counts_both(many: Aged) -> None:
    many.service.rows(
        "UPDATE memory_state SET next_due_at = '-infinity', policy_version = 2 WHERE memory_id IN "
        "(SELECT memory_id FROM memory_state ORDER BY memory_id LIMIT 4)"
    )
    run = Run(many, sweep.KIND).end()
    assert (run.job.total, run.job.done) == (23, 23)


def test_a_night_without_a_new_policy_looks_at_no_quiet_memory(many: Aged) -> None:
    nights.run(many.tenant_id)
    with database.tenant(many.tenant_id) as tx:
        held = states.lock_older(tx, many.tenant_id, 2, NIL, 5)
    assert (len(held), is_due(many, 2)) == (0, False)
    many.service.rows("UPDATE memory_state SET policy_version = 1")
    assert nights.run(many.tenant_id)["sweep"] == 0, "a version already rebased isn't searched again"


# --- Dry runs ---


def test_a_dry_run_lists_what_changes_its_tier_by_the_new_policy(aged: Aged) -> None:
    ids = aged.remember(-12, -4, -4.5, 0)
    nights.run(aged.tenant_id)
    aged.decide(STRICT, 0)
    before = aged.anchors()
    found = sweep.preview_sweep(aged.tenant_id, None, None, 100, only_rebase=True)
    assert [(move.memory_id, move.after) for move in found.moves] == [
        (ids[0], "cold"),
        (ids[1], "archived"),
        (ids[2], "archived"),
    ]
    assert found.moves[0].why.endswith("is below 0.8")
    assert found.counts["looked_at"] == 4
    assert aged.anchors() == before
    assert sweep.preview_sweep(aged.tenant_id, None, None, 100) == found, "the sweep's preview includes the rebase"
    Run(aged).end()
    assert sweep.preview_sweep(aged.tenant_id, None, None, 100, only_rebase=True).counts["looked_at"] == 0


def test_it_may_be_of_an_earlier_day(many: Aged) -> None:
    assert Run(many, parameters=queue.evaluation_parameters(days(-1))).end().job.done == 0
    assert Run(many, parameters=queue.evaluation_parameters(days(0.5))).end().job.done == 23
    assert not is_due(many, 2)
