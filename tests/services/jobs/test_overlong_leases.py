"""Leases and delays that a clock far ahead has set."""

from __future__ import annotations

from uuid import UUID

import pytest

from app.domain.jobs import Step
from app.services.enrichment import stage_runner
from app.services.ingest import drain
from app.services.jobs import queue
from tests.service import Service, Tenant
from tests.services.job_kinds import set_kind


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """The jobs for which messages were sent."""
    messages: list[UUID] = []
    monkeypatch.setattr("app.queues.enqueue", lambda _, job_id, **__: messages.append(job_id))
    return messages


@pytest.fixture
def define(monkeypatch: pytest.MonkeyPatch) -> None:
    """Define the kind `test`, whose first step is its last."""
    set_kind(monkeypatch, "test", lambda _: Step(1, {}, True))


@pytest.mark.usefixtures("define")
def test_leases_from_before_the_clock_was_set_back_end(service: Service, tenant: Tenant, sent: list[UUID]) -> None:
    job_id = queue.create(tenant.tenant_id, "test", {})
    service.send(tenant.tenant_id, "waits to be indexed")
    drain.drain_streams()
    set_back = "UPDATE {} SET claim = gen_random_uuid(), claimed_until = now() + interval '2 hours'"
    for table in ("jobs", "tenant_work"):
        service.rows(set_back.format(table))
    assert queue.send_jobs() == 0
    assert stage_runner.run_index_stage() == 0

    assert queue.send_after_steps() == 1
    assert sent == [job_id, job_id]
    assert stage_runner.run_index_stage() == 1


@pytest.mark.usefixtures("define", "sent")
def test_a_job_that_may_start_later_waits_on(service: Service, tenant: Tenant) -> None:
    queue.create(tenant.tenant_id, "test", {})
    later = service.one("SELECT now() + interval '3 days'")
    service.rows("UPDATE jobs SET claim = NULL, not_before = %s, claimed_until = %s", later, later)
    assert queue.send_after_steps() == 0
    assert service.one("SELECT claimed_until = not_before FROM jobs")
