"""Leases and delays from before the database's clock was set back end; a job that may start only later waits on."""

from __future__ import annotations

from uuid import UUID

import pytest

from app.services.enrichment import stage_runner
from app.services.ingest import drain
from app.services.jobs import queue
from tests.service import Service


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """The jobs for which messages were sent."""
    messages: list[UUID] = []
    monkeypatch.setattr("app.queues.enqueue", lambda _, job_id, **__: messages.append(job_id))
    return messages


def test_leases_from_before_the_clock_was_set_back_end(service: Service, sent: list[UUID]) -> None:
    tenant_id = service.tenant().tenant_id
    job_id = queue.create(tenant_id, "sweep", {})
    service.send(tenant_id, "waits to be indexed")
    drain.drain_streams()
    service.rows("UPDATE jobs SET claim = gen_random_uuid(), claimed_until = now() + interval '2 hours'")
    service.rows("UPDATE tenant_work SET claim = gen_random_uuid(), claimed_until = now() + interval '2 hours'")
    assert queue.send_jobs() == 0
    assert stage_runner.run_index_stage() == 0

    assert queue.end_overlong_leases_and_send() == 1
    assert sent == [job_id, job_id]
    assert stage_runner.run_index_stage() == 1


@pytest.mark.usefixtures("sent")
def test_a_job_that_may_start_later_waits_on(service: Service) -> None:
    queue.create(service.tenant().tenant_id, "sweep", {})
    later = service.one("SELECT now() + interval '3 days'")
    service.rows("UPDATE jobs SET claim = NULL, not_before = %s, claimed_until = %s", later, later)
    assert queue.end_overlong_leases_and_send() == 0
    assert service.one("SELECT claimed_until = not_before FROM jobs")


def test_a_lease_on_a_job_that_was_to_start_later_ends(service: Service, sent: list[UUID]) -> None:
    """The clock was set back by two hours while the job ran, so its earliest start is in the future again."""
    job_id = queue.create(service.tenant().tenant_id, "sweep", {})
    service.rows("""
        UPDATE jobs SET status = 'running', attempts = 1, not_before = now() + interval '2 hours',
          claimed_until = now() + interval '2 hours 22 seconds'
    """)
    assert queue.end_overlong_leases_and_send() == 1
    assert sent == [job_id, job_id]


def test_a_job_that_was_sent_but_not_started_waits_for_its_start_again(service: Service, sent: list[UUID]) -> None:
    """Otherwise its claim would count among the jobs under way, of which there is a limit."""
    queue.create(service.tenant().tenant_id, "sweep", {})
    service.rows("""
        UPDATE jobs SET not_before = now() + interval '2 hours', claimed_until = now() + interval '2 hours 22 seconds'
    """)
    sent.clear()
    assert queue.end_overlong_leases_and_send() == 0
    assert sent == []
    assert service.one("SELECT claim IS NULL AND claimed_until = not_before FROM jobs")
