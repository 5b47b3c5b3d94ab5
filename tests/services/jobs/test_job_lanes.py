"""Erasures, exports and restores run in the `rights` lane, which no maintenance delays."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from app.domain.jobs import RIGHTS_KINDS, Job, Step
from app.services.jobs import backpressure, queue, runner
from app.services.monitoring import stats
from app.store.core import database
from app.store.jobs import jobs
from tests.service import Service, Tenant
from tests.services.job_kinds import set_kind
from tests.waiting import PATIENCE_SECONDS

RIGHTS = ("erase", "export", "hide", "quarantine", "restore")


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, UUID]]:
    """The messages that were sent, each with its task."""
    messages: list[tuple[str, UUID]] = []

    def enqueue(task: str, argument: UUID, *, expires_seconds: float | None) -> None:
        assert expires_seconds is None
        messages.append((task, argument))

    monkeypatch.setattr("app.queues.enqueue", enqueue)
    return messages


def once(job: Job) -> Step:
    return Step(1, job.state, finished=True)


def test_erasures_exports_and_restores_have_a_lane_of_their_own() -> None:
    assert sorted(RIGHTS_KINDS) == sorted(RIGHTS)


@pytest.mark.parametrize("kind", RIGHTS)
def test_a_job_of_maintenance_on_its_way_holds_up_none_of_the_rights(
    tenant: Tenant, sent: list[tuple[str, UUID]], kind: str
) -> None:
    long, other = (queue.create(tenant.tenant_id, "consolidate", {}, lone=False) for _ in range(2))
    mine, second = (queue.create(tenant.tenant_id, kind, {}, lone=False) for _ in range(2))
    assert sent == [("maintain.job", long), ("rights.job", mine)], "one job per lane is sent"
    assert {other, second}.isdisjoint(job_id for _, job_id in sent)


def test_the_rights_lane_goes_on_with_its_own_jobs_while_maintenance_is_stuck(
    monkeypatch: pytest.MonkeyPatch, tenant: Tenant, sent: list[tuple[str, UUID]]
) -> None:
    set_kind(monkeypatch, "export", once, in_rights=True)
    queue.create(tenant.tenant_id, "consolidate", {})
    mine = [queue.create(tenant.tenant_id, "export", {}, lone=False) for _ in range(3)]
    for place in range(3):
        task, job_id = sent[1 + place]
        assert task == "rights.job"
        runner.run_slice(job_id)
    assert {queue.get(tenant.tenant_id, job_id).status for job_id in mine} == {"done"}


@pytest.mark.parametrize(("task", "status"), [("rights.job", "done"), ("maintain.job", "queued")])
def test_only_maintenance_gives_way_to_ingest(
    monkeypatch: pytest.MonkeyPatch, tenant: Tenant, sent: list[tuple[str, UUID]], task: str, status: str
) -> None:
    set_kind(monkeypatch, "test", once, in_rights=task == "rights.job")
    monkeypatch.setattr(backpressure, "must_wait_for_ingest", lambda _: True)
    job_id = queue.create(tenant.tenant_id, "test", {})
    runner.run_slice(sent[-1][1])
    assert queue.get(tenant.tenant_id, job_id).status == status


def test_what_may_not_begin_yet_waits_in_no_lane(service: Service, tenant: Tenant) -> None:
    """An erasure has a week of grace: a lane that counted it would appear to be a week late."""
    with database.tenant(tenant.tenant_id) as tx:
        later = database.now(tx) + timedelta(days=7)
        jobs.add(tx, uuid4(), tenant.tenant_id, "erase", {}, lone=False, not_before=later)
    assert stats.lane_backlogs()["rights"] == stats.Lane(0, 0.0)
    service.rows("UPDATE jobs SET created_at = now() - interval '7 days', not_before = now() - interval '9 seconds'")
    for lanes in (stats.lane_backlogs(), stats.tenant_stats(tenant.tenant_id).lanes):
        assert lanes["rights"].depth == 1
        assert 9 <= lanes["rights"].oldest_age_seconds < 9 + PATIENCE_SECONDS
        assert lanes["maintain"].depth == 0


@pytest.mark.parametrize("kind", ["erase", "hide", "restore"])
def test_exports_give_way_to_other_jobs_of_their_lane(
    service: Service, tenant: Tenant, sent: list[tuple[str, UUID]], kind: str
) -> None:
    """An erasure would otherwise wait for a slice of each export before each slice of its own."""
    first, second = (queue.create(tenant.tenant_id, "export", {}, lone=False) for _ in range(2))
    later = queue.create(tenant.tenant_id, kind, {}, lone=False)
    for expected in (later, second, first):
        service.rows("UPDATE jobs SET claim = NULL, claimed_until = now() WHERE claim IS NOT NULL")  # its slice ends
        assert queue.send_jobs() == 1
        assert sent[-1][1] == expected
        service.rows(
            "UPDATE jobs SET status = 'done', claimed_until = NULL WHERE job_id = %s AND kind <> 'export'", later
        )
    assert [job_id for _, job_id in sent] == [first, later, second, first], "exports take turns"


def test_constant_erasures_leave_exports_a_turn(
    service: Service, tenant: Tenant, sent: list[tuple[str, UUID]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Erasures without end: after a number of their turns, the export that has waited longest has one."""
    monkeypatch.setattr(queue, "PASSED_OVER_MAX", 3)
    erasures = [queue.create(tenant.tenant_id, "erase", {}, lone=False) for _ in range(2)]
    exports = [queue.create(tenant.tenant_id, "export", {}, lone=False) for _ in range(2)]
    sent.clear()
    for _ in range(12):
        service.rows("UPDATE jobs SET status = 'queued', claim = NULL, claimed_until = now() WHERE claim IS NOT NULL")
        assert queue.send_jobs() == 1
    turns = ["export" if job_id in exports else "erase" for _, job_id in sent]
    assert turns == ["erase", "erase", "erase", "export"] * 3
    assert [job_id for _, job_id in sent if job_id in exports] == [exports[0], exports[1], exports[0]]
    assert {job_id for _, job_id in sent} >= set(erasures), "erasures take turns among themselves"


def test_an_export_with_its_turn_goes_before_erasures_that_have_waited_longer(
    service: Service, tenant: Tenant, sent: list[tuple[str, UUID]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "PASSED_OVER_MAX", 3)
    for _ in range(9):
        queue.create(tenant.tenant_id, "erase", {}, lone=False)
    export = queue.create(tenant.tenant_id, "export", {}, lone=False)
    sent.clear()
    for _ in range(4):  # each erasure ends in one turn
        service.rows("UPDATE jobs SET status = 'done', claim = NULL, claimed_until = NULL WHERE claim IS NOT NULL")
        assert queue.send_jobs() == 1
    assert [job_id for _, job_id in sent].index(export) == 3
