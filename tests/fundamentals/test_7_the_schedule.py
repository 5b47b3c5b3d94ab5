"""Chapter 7: the schedule.

What is to be done every night stands in rows, one for each tenant and task, with a time in the tenant's own time
zone. Every few seconds a tick looks for rows that are due, writes down a run for each, and sends it to a worker.
A run is done once, however many ticks there are and however often its message comes.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from psycopg import sql

from app.domain.ids import new_base
from tests.fundamentals.client import Client
from tests.fundamentals.service import Row, Service, Tenant
from tests.waiting import until

PURGE = "maintain.purge_ledger"


@pytest.fixture
def schedule(service: Service, tenant: Tenant) -> UUID:
    """The id of the tenant's row for the nightly purge."""
    statement = sql.SQL("SELECT schedule_id FROM schedules WHERE tenant_id = %s AND task = %s")
    service.tick()
    [row] = until(lambda: service.rows(statement, tenant.tenant_id, PURGE), "the tenant has its row")
    found: UUID = row[0]
    return found


def run_by_hand(service: Service, schedule: UUID) -> None:
    service.rows(sql.SQL("UPDATE schedules SET run_now = true WHERE schedule_id = %s"), schedule)
    service.tick()


def runs(service: Service, schedule: UUID) -> list[Row]:
    statement = sql.SQL("SELECT kind, status, rows FROM runs WHERE schedule_id = %s ORDER BY scheduled_for")
    return service.rows(statement, schedule)


def test_a_new_tenant_gets_its_rows_at_the_next_tick(service: Service, schedule: UUID) -> None:
    [[cron, zone, due]] = service.rows(
        sql.SQL("SELECT cron, time_zone, next_run_at FROM schedules WHERE schedule_id = %s"), schedule
    )

    assert (cron, zone) == ("30 3 * * *", "UTC")
    assert timedelta() < due - datetime.now(UTC) < timedelta(days=1, hours=1)  # spread over an hour


def test_a_row_that_is_due_is_run_once_whatever_the_number_of_ticks(service: Service, schedule: UUID) -> None:
    service.rows(
        sql.SQL("UPDATE schedules SET next_run_at = now() - interval '1 minute' WHERE schedule_id = %s"), schedule
    )
    for _ in range(5):
        service.tick()

    until(lambda: [status for _, status, _ in runs(service, schedule)] == ["done"], "the run is done")
    service.tick()
    [[due]] = service.rows(sql.SQL("SELECT next_run_at FROM schedules WHERE schedule_id = %s"), schedule)
    assert due > datetime.now(UTC)
    assert len(runs(service, schedule)) == 1


def test_a_paused_row_isnt_run_but_can_be_by_hand(service: Service, schedule: UUID) -> None:
    service.rows(sql.SQL("UPDATE schedules SET paused = true, next_run_at = now() WHERE schedule_id = %s"), schedule)
    run_by_hand(service, schedule)

    until(lambda: [(kind, status) for kind, status, _ in runs(service, schedule)] == [("by_hand", "done")], "it ran")


def test_the_purge_forgets_requests_that_nobody_can_repeat_any_more(
    service: Service, tenant: Tenant, ebbing: Client, schedule: UUID
) -> None:
    [memory_id] = ebbing.remember("stored just now")
    month_ago = new_base(int((time.time() - 30 * 86_400) * 1000), b"8 random")
    enter = sql.SQL("INSERT INTO envelopes (tenant_id, base, memories) VALUES (%s, %s, 1)")
    service.rows(enter, tenant.tenant_id, UUID(bytes=month_ago))

    run_by_hand(service, schedule)

    until(lambda: runs(service, schedule) == [("by_hand", "done", 1)], "the purge has deleted one row")
    left = service.rows(sql.SQL("SELECT base FROM envelopes WHERE tenant_id = %s"), tenant.tenant_id)
    assert [str(base) for (base,) in left] == [memory_id]  # a request's first memory has the request's own id
    assert ebbing.get(memory_id).text == "stored just now"  # only the note that it came is purged, never a memory
