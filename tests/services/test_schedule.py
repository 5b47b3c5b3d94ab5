"""The tick: one run for each time that is due, whatever ticks, messages and workers do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from app import queues
from app.domain.policy import Policy
from app.services import schedule
from app.services.schedule import Row
from tests.service import Service, Tenant

NIGHTLY = Row("maintain.purge_ledger", cron="30 3 * * *", jitter_seconds=0, grace_seconds=6 * 3600)
HOURLY = Row("maintain.purge_ledger", cron="0 * * * *", jitter_seconds=0, grace_seconds=1800)
NOON = datetime(2026, 3, 7, 12, tzinfo=UTC)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """The runs that messages were sent for."""
    messages: list[UUID] = []

    def enqueue(task: str, argument: UUID, *, expires_seconds: float | None) -> None:
        assert task in queues.TASKS
        assert expires_seconds is None, "a run's message must not vanish unread"
        messages.append(argument)

    monkeypatch.setattr("app.queues.enqueue", enqueue)
    return messages


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


def runs(service: Service) -> list[tuple[Any, ...]]:
    """Kind, time, missed times besides, and status of every run."""
    query = "SELECT kind, scheduled_for, coalesced, status FROM runs ORDER BY scheduled_for, kind"
    return [tuple(row) for row in service.rows(query)]


def due(service: Service) -> datetime:
    moment: datetime = service.one("SELECT next_run_at FROM schedules")
    return moment


def started(service: Service, tenant: Tenant, row: Row = HOURLY, now: datetime = NOON) -> None:
    """The tenant's row, nothing of it due yet."""
    assert schedule.tick([row], now) == 0
    assert runs(service) == []


def test_each_tenant_gets_the_default_rows_in_its_own_time(service: Service, sent: list[UUID]) -> None:
    service.tenant(Policy(time_zone="Europe/Berlin"))
    service.tenant(Policy(time_zone="America/New_York"))
    assert schedule.tick([NIGHTLY], NOON) == 0
    found = service.rows("SELECT time_zone, next_run_at FROM schedules ORDER BY next_run_at")
    assert found == [
        ("Europe/Berlin", datetime(2026, 3, 8, 2, 30, tzinfo=UTC)),
        ("America/New_York", datetime(2026, 3, 8, 7, 30, tzinfo=UTC)),
    ]
    schedule.tick([NIGHTLY], NOON)
    assert service.one("SELECT count(*) FROM schedules") == 2


def test_a_time_that_has_come_is_one_run_and_one_message(service: Service, tenant: Tenant, sent: list[UUID]) -> None:
    started(service, tenant)
    one = NOON + timedelta(hours=1)
    assert schedule.tick([HOURLY], one - timedelta(seconds=1)) == 0
    assert schedule.tick([HOURLY], one) == 1
    assert runs(service) == [("scheduled", one, 0, "queued")]
    assert due(service) == one + timedelta(hours=1)
    assert schedule.tick([HOURLY], one + timedelta(seconds=5)) == 0
    assert sent == [service.one("SELECT run_id FROM runs")]


def test_four_ticks_at_once_enter_one_run_for_each_tenant(service: Service, sent: list[UUID]) -> None:
    for _ in range(20):
        service.tenant()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: schedule.tick([HOURLY], NOON), range(4)))
        assert service.one("SELECT count(*) FROM schedules") == 20
        list(pool.map(lambda _: schedule.tick([HOURLY], NOON + timedelta(hours=1)), range(4)))
    schedule.tick([HOURLY], NOON + timedelta(hours=1))
    assert service.one("SELECT count(*) FROM runs") == 20
    assert len(set(sent)) == 20
    assert service.one("SELECT count(*) FROM outbox") == 0


def test_times_missed_in_an_outage_become_one_run(service: Service, tenant: Tenant, sent: list[UUID]) -> None:
    started(service, tenant)
    assert schedule.tick([HOURLY], NOON + timedelta(hours=3, minutes=10)) == 1
    assert runs(service) == [("scheduled", NOON + timedelta(hours=3), 2, "queued")]
    assert due(service) == NOON + timedelta(hours=4)


def test_a_time_missed_by_more_than_its_grace_is_noted_and_skipped(
    service: Service, tenant: Tenant, sent: list[UUID]
) -> None:
    started(service, tenant)
    assert schedule.tick([HOURLY], NOON + timedelta(hours=3, minutes=40)) == 0
    assert runs(service) == [("scheduled", NOON + timedelta(hours=3), 2, "skipped")]
    assert due(service) == NOON + timedelta(hours=4)


def test_a_beat_that_was_down_for_a_day_and_two_hours_catches_up_once(
    service: Service, tenant: Tenant, sent: list[UUID]
) -> None:
    started(service, tenant, NIGHTLY)
    night = datetime(2026, 3, 8, 3, 30, tzinfo=UTC)
    assert schedule.tick([NIGHTLY], night + timedelta(hours=26)) == 1
    assert runs(service) == [("scheduled", night + timedelta(days=1), 1, "queued")]
    assert len(sent) == 1


def test_a_year_of_outage_ends_in_the_future(service: Service, tenant: Tenant, sent: list[UUID]) -> None:
    every_minute = Row("maintain.purge_ledger", cron="* * * * *", jitter_seconds=0, grace_seconds=60)
    started(service, tenant, every_minute)
    later = NOON + timedelta(days=365)
    schedule.tick([every_minute], later)
    assert due(service) == later + timedelta(minutes=1)
    assert len(runs(service)) == 1


def test_tenants_are_spread_and_each_keeps_its_minute(service: Service, sent: list[UUID]) -> None:
    spread = Row("maintain.purge_ledger", cron="30 3 * * *", jitter_seconds=3600, grace_seconds=3600)
    for _ in range(12):
        service.tenant()
    schedule.tick([spread], NOON)
    before = service.rows("SELECT tenant_id, next_run_at FROM schedules ORDER BY tenant_id")
    assert len({moment for _, moment in before}) > 6
    schedule.tick([spread], NOON + timedelta(days=1))
    after = service.rows("SELECT tenant_id, next_run_at FROM schedules ORDER BY tenant_id")
    assert after == [(tenant_id, moment + timedelta(days=1)) for tenant_id, moment in before]


@pytest.mark.parametrize("day", [datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC)])
def test_a_night_with_a_change_of_clocks_has_one_run(service: Service, sent: list[UUID], day: datetime) -> None:
    service.tenant(Policy(time_zone="Europe/Berlin"))
    nightly = Row("maintain.purge_ledger", cron="30 2 * * *", jitter_seconds=0, grace_seconds=3600)
    for minutes in range(-24 * 60, 36 * 60, 15):
        schedule.tick([nightly], day + timedelta(minutes=minutes))
    dates = [moment.date() for _, moment, _, _ in runs(service)]
    assert dates.count(day.date()) == 1
    assert len(dates) == 3


def test_a_run_by_hand_is_besides_the_scheduled_ones(service: Service, tenant: Tenant, sent: list[UUID]) -> None:
    started(service, tenant)
    service.rows("UPDATE schedules SET run_now = true")
    moment = NOON + timedelta(minutes=20)
    assert schedule.tick([HOURLY], moment) == 1
    assert schedule.tick([HOURLY], moment + timedelta(seconds=5)) == 0
    assert runs(service) == [("by_hand", moment, 0, "queued")]
    assert due(service) == NOON + timedelta(hours=1)


def test_a_paused_schedule_runs_by_hand_alone(service: Service, tenant: Tenant, sent: list[UUID]) -> None:
    started(service, tenant)
    service.rows("UPDATE schedules SET paused = true")
    assert schedule.tick([HOURLY], NOON + timedelta(hours=5)) == 0
    service.rows("UPDATE schedules SET run_now = true")
    assert schedule.tick([HOURLY], NOON + timedelta(hours=5)) == 1
    assert [row[0] for row in runs(service)] == ["by_hand"]
    service.rows("UPDATE schedules SET paused = false")
    schedule.tick([HOURLY], NOON + timedelta(hours=5, minutes=1))
    assert [(row[0], row[2]) for row in runs(service)] == [("by_hand", 0), ("scheduled", 4)]


def test_what_isnt_sent_stays_in_the_outbox(service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    started(service, tenant)
    soon = datetime.now(UTC) + timedelta(minutes=5)
    service.rows("UPDATE schedules SET next_run_at = %s", soon)

    def fail(*_: object, **__: object) -> None:
        raise ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr("app.queues.enqueue", fail)
        with pytest.raises(ConnectionError):
            schedule.tick([HOURLY], soon)
    assert service.one("SELECT count(*) FROM outbox") == 1
    messages: list[object] = []
    monkeypatch.setattr("app.queues.enqueue", lambda *given, **_: messages.append(given))
    assert schedule.tick([HOURLY], soon) == 1
    assert service.one("SELECT count(*) FROM outbox") == 0
    assert len(messages) == 1


# --- Carrying out ---


@pytest.fixture
def run_id(service: Service, tenant: Tenant, sent: list[UUID]) -> UUID:
    """A run that is due now, its message sent."""
    schedule.tick([HOURLY], datetime.now(UTC))
    service.rows("UPDATE schedules SET run_now = true")
    assert schedule.tick([HOURLY]) == 1
    return sent[0]


def status(service: Service, run_id: UUID) -> tuple[Any, ...]:
    [row] = service.rows("SELECT status, rows, error, finished_at IS NOT NULL FROM runs WHERE run_id = %s", run_id)
    return tuple(row)


def test_a_message_that_comes_twice_does_the_work_once(service: Service, tenant: Tenant, run_id: UUID) -> None:
    done: list[UUID] = []

    def work(tenant_id: UUID) -> int:
        done.append(tenant_id)
        schedule.carry_out(run_id, work)  # while it runs
        return 7

    schedule.carry_out(run_id, work)
    schedule.carry_out(run_id, work)
    assert done == [tenant.tenant_id]
    assert status(service, run_id) == ("done", 7, None, True)


def test_work_that_fails_is_marked_with_the_type_of_its_error(service: Service, run_id: UUID) -> None:
    def work(_: UUID) -> int:
        raise ValueError("what a memory says")

    with pytest.raises(ValueError, match="memory"):
        schedule.carry_out(run_id, work)
    assert status(service, run_id) == ("failed", 0, "ValueError", True)
    schedule.carry_out(run_id, work)
    assert service.redis.hget("ebbing:{s0}:counters", "runs_failed") == b"1"


def test_work_that_the_database_stopped_is_taken_up_again(service: Service, run_id: UUID, sent: list[UUID]) -> None:
    def away(_: UUID) -> int:
        raise OperationalError("SELECT", {}, psycopg.OperationalError("the connection is closed"))

    with pytest.raises(OperationalError):
        schedule.carry_out(run_id, away)
    assert status(service, run_id)[0] == "running"
    assert schedule.tick([HOURLY]) == 0, "its claim holds"
    service.rows("UPDATE runs SET claimed_until = now() - interval '1 second'")
    assert schedule.tick([HOURLY]) == 1
    assert sent == [run_id, run_id]
    schedule.carry_out(run_id, lambda _: 1)
    assert status(service, run_id)[0] == "done"


def test_a_lost_message_is_sent_again(service: Service, run_id: UUID, sent: list[UUID]) -> None:
    assert schedule.tick([HOURLY]) == 0
    assert service.one("SELECT claimed_until > now() + interval '30 seconds' FROM runs")
    service.rows("UPDATE runs SET claimed_until = now() - interval '1 second'")
    assert schedule.tick([HOURLY]) == 1
    assert schedule.tick([HOURLY]) == 0, "not with every tick"
    assert sent == [run_id, run_id]
    schedule.carry_out(run_id, lambda _: 3)
    service.rows("UPDATE runs SET claimed_until = now() - interval '1 day'")
    assert schedule.tick([HOURLY]) == 0, "it is done"


def test_an_unknown_run_is_nobodys(service: Service) -> None:
    schedule.carry_out(UUID(int=1), lambda _: pytest.fail("there is nothing to do"))


def test_messages_go_to_the_tasks_queue_with_ids_alone(service: Service, tenant: Tenant) -> None:
    schedule.tick([HOURLY], datetime.now(UTC))
    service.rows("UPDATE schedules SET run_now = true")
    assert schedule.tick([HOURLY]) == 1
    [message] = service.redis.lrange("ebbing:{s0}:celery:maintain", 0, -1)
    assert str(service.one("SELECT run_id FROM runs")).encode() in message
    assert str(tenant.tenant_id).encode() not in message
