"""The schedule: one night per local date, despite missed ticks, repeated messages, clock changes and new policies."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from app.domain.policy.night_hours import Night
from app.domain.policy.policy import Policy
from app.errors import Conflict, NotFound
from app.services.jobs import queue, runner, schedule
from app.services.tenants import policy_versions, tenants
from app.services.tenants.policy_versions import RequestedChange
from app.store.core import database
from tests.service import Service, Tenant
from tests.variants import variants

NOON = datetime(2026, 3, 7, 12, tzinfo=UTC)
AT_TWO = Night(jitter_seconds=0)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
FIRST = NOON + 14 * HOUR
"""Due time of the first night, in UTC."""


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """The jobs for which messages were sent."""
    messages: list[UUID] = []
    monkeypatch.setattr("app.queues.enqueue", lambda _, argument, **__: messages.append(argument))
    return messages


@pytest.fixture
def tenant(service: Service, sent: list[UUID]) -> Tenant:
    """A tenant in UTC with an old policy, whose schedule was created at noon."""
    made = service.tenant(Policy(night=AT_TWO))
    begin(service)
    return made


def begin(service: Service) -> None:
    """Backdate every tenant's policy, and create the schedules at noon."""
    service.rows("UPDATE policies SET effective_at = '2020-01-01'")
    tick(NOON)


def tick(now: datetime) -> int:
    return schedule.insert_due_runs(["night"], now)


def runs(service: Service) -> list[tuple[Any, ...]]:
    """Return kind, time, local date, number of coalesced times, and whether it was skipped, of every run."""
    query = (
        "SELECT kind, scheduled_for, local_date, coalesced, skipped IS NOT NULL FROM runs ORDER BY scheduled_for, kind"
    )
    return [tuple(row) for row in service.rows(query)]


def nights(service: Service) -> list[date]:
    """Return the local dates of scheduled runs that weren't skipped, in chronological order."""
    query = "SELECT local_date FROM runs WHERE kind = 'scheduled' AND skipped IS NULL ORDER BY scheduled_for"
    return [day for (day,) in service.rows(query)]


def due(service: Service) -> datetime:
    moment: datetime = service.one("SELECT next_run_at FROM schedules")
    return moment


def end(service: Service) -> None:
    """Finish every running night."""
    service.rows("UPDATE jobs SET status = 'done', claim = NULL, claimed_until = NULL, finished_at = now()")


def pass_by(service: Service, start: datetime, hours: int, step: timedelta = HOUR / 2) -> None:
    """Tick through these hours, finishing each night before the next tick."""
    moment = start
    while moment <= start + hours * HOUR:
        if tick(moment):
            end(service)
        moment += step


# --- Times ---


def test_each_tenant_has_its_night_in_its_own_time(service: Service, sent: list[UUID]) -> None:
    for zone in ("Europe/Berlin", "America/New_York"):
        service.tenant(Policy(time_zone=zone, night=Night(starts_at="02:30", jitter_seconds=0)))
    begin(service)
    found = [moment for (moment,) in service.rows("SELECT next_run_at FROM schedules ORDER BY next_run_at")]
    assert found == [datetime(2026, 3, 8, 1, 30, tzinfo=UTC), datetime(2026, 3, 8, 7, 30, tzinfo=UTC)]
    tick(NOON)
    assert service.one("SELECT count(*) FROM schedules") == 2


def test_a_time_that_has_come_is_one_run_and_one_job(service: Service, tenant: Tenant, sent: list[UUID]) -> None:
    assert tick(FIRST - timedelta(seconds=1)) == 0
    assert tick(FIRST) == 1
    assert tick(FIRST + timedelta(seconds=5)) == 0
    assert runs(service) == [("scheduled", FIRST, date(2026, 3, 8), 0, False)]
    assert service.rows("SELECT job_id, kind, parameters FROM jobs") == [
        (service.one("SELECT job_id FROM runs"), "night", {"as_of": FIRST.isoformat()})
    ]
    assert due(service) == FIRST + DAY


def test_four_ticks_at_once_enter_one_run_for_each_tenant(service: Service, sent: list[UUID]) -> None:
    for _ in range(10):
        service.tenant(Policy(night=AT_TWO))
    service.rows("UPDATE policies SET effective_at = '2020-01-01'")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: tick(NOON), range(4)))
        assert service.one("SELECT count(*) FROM schedules") == 10
        list(pool.map(lambda _: tick(FIRST), range(4)))
    tick(FIRST)
    assert service.one("SELECT count(*) FROM runs") == 10
    assert service.one("SELECT count(*) FROM jobs") == 10
    assert len(sent) == len(set(sent)), "one message per job"


def test_a_beat_that_was_down_for_three_hours_runs_the_night_then(service: Service, tenant: Tenant) -> None:
    tick(FIRST + 3 * HOUR)
    [run] = schedule.list_runs(tenant.tenant_id, "night", None, 10)
    assert (run.local_date, run.scheduled_for, run.coalesced, run.skipped) == (date(2026, 3, 8), FIRST, 0, None)
    service.rows("UPDATE jobs SET started_at = %s", FIRST + 3 * HOUR)
    [run] = schedule.list_runs(tenant.tenant_id, "night", None, 10)
    assert run.late_seconds == 3 * 3600
    assert due(service) == FIRST + DAY


def test_nights_missed_in_an_outage_become_one(service: Service, tenant: Tenant) -> None:
    tick(FIRST + 26 * HOUR)
    assert runs(service) == [("scheduled", FIRST + DAY, date(2026, 3, 9), 1, False)]
    end(service)
    tick(FIRST + 400 * DAY + HOUR)
    assert len(runs(service)) == 2
    assert runs(service)[-1][1:4] == (FIRST + 400 * DAY, date(2027, 4, 12), 398)


def test_a_night_missed_for_too_long_is_noted_and_skipped(service: Service, sent: list[UUID]) -> None:
    tenant = service.tenant(Policy(night=Night(jitter_seconds=0, catch_up_hours=6)))
    begin(service)
    assert tick(FIRST + 7 * HOUR) == 0
    assert runs(service) == [("scheduled", FIRST, date(2026, 3, 8), 0, True)]
    [run] = schedule.list_runs(tenant.tenant_id, "night", None, 10)
    reason = "not started within 6 hours of the scheduled time"
    assert (run.status, run.skipped, run.late_seconds) == ("skipped", reason, 7 * 3600)
    assert tick(FIRST + DAY) == 1


def test_decades_of_outage_end_in_the_future(service: Service, tenant: Tenant) -> None:
    later = FIRST + timedelta(days=9000, hours=1)
    tick(later)
    assert len(runs(service)) == 1
    assert due(service) == later - HOUR + DAY


def test_tenants_are_spread_and_each_keeps_its_minute(service: Service, sent: list[UUID]) -> None:
    for _ in range(8):
        service.tenant()
    begin(service)
    before = service.rows("SELECT tenant_id, next_run_at FROM schedules ORDER BY tenant_id")
    assert len({moment for _, moment in before}) > 4
    assert {FIRST <= moment < FIRST + HOUR for _, moment in before} == {True}
    tick(NOON + DAY)
    after = service.rows("SELECT tenant_id, next_run_at FROM schedules ORDER BY tenant_id")
    assert after == [(tenant_id, moment + DAY) for tenant_id, moment in before]


DATES = {
    "clocks go forward": ("Europe/Berlin", date(2026, 3, 29)),
    "clocks go back": ("Europe/Berlin", date(2026, 10, 25)),
    "clocks go forward at midnight": ("America/Santiago", date(2026, 9, 6)),
    "29 February": ("UTC", date(2028, 2, 29)),
}
NIGHTS = {f"{name}, {at}": (*where, at) for name, where in DATES.items() for at in ("00:00", "02:30")}
# Each date once, with the start that the change of clocks removes or repeats.
USUAL_NIGHTS = {
    *("clocks go forward, 02:30", "clocks go back, 02:30"),
    *("clocks go forward at midnight, 00:00", "29 February, 00:00"),
}


@pytest.mark.parametrize("case", variants(NIGHTS, USUAL_NIGHTS))
def test_every_local_date_has_one_night(service: Service, sent: list[UUID], case: tuple[str, date, str]) -> None:
    zone, day, starts_at = case
    service.tenant(Policy(time_zone=zone, night=Night(starts_at=starts_at, jitter_seconds=0)))
    service.rows("UPDATE policies SET effective_at = '2020-01-01'")
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=ZoneInfo(zone)).astimezone(UTC)
    pass_by(service, noon - 2 * DAY, 96)
    assert nights(service) == [day - DAY, day, day + DAY, day + 2 * DAY]


# --- The tenant's choices ---


def choose(tenant: Tenant, now: datetime, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    """Change the policy at this moment, effective at once or from `effective_at`."""
    effective_at = fields.pop("effective_at", None)
    with monkeypatch.context() as patched:
        patched.setattr(database, "now", lambda _: now)
        policy_versions.write_change(tenant.tenant_id, RequestedChange(fields, effective_at=effective_at))


def test_another_hour_moves_the_next_night_at_once(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(tenant, FIRST - HOUR, monkeypatch, night={"starts_at": "23:00"})
    assert due(service) == FIRST + 21 * HOUR
    pass_by(service, FIRST - HOUR, 48)
    assert nights(service) == [date(2026, 3, 8), date(2026, 3, 9)]


def test_an_hour_that_has_passed_is_made_up_for_where_the_date_had_no_night(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(tenant, FIRST - HOUR, monkeypatch, night={"starts_at": "00:30"})
    assert due(service) == FIRST - HOUR
    pass_by(service, FIRST - HOUR, 12)
    choose(tenant, FIRST + 12 * HOUR, monkeypatch, night={"starts_at": "20:00"})
    pass_by(service, FIRST + 12 * HOUR, 10)
    assert nights(service) == [date(2026, 3, 8)], "this date already had its night"


def test_a_policy_that_begins_later_moves_the_nights_from_then_on(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(tenant, NOON, monkeypatch, night={"starts_at": "05:00"}, effective_at=NOON + DAY)
    pass_by(service, NOON, 48)
    found = [moment for _, moment, *_ in runs(service)]
    assert found == [FIRST, FIRST + DAY + 3 * HOUR]
    choose(tenant, NOON + 2 * DAY, monkeypatch, night={"starts_at": "06:00"}, effective_at=NOON + 30 * DAY)
    assert due(service) == FIRST + 2 * DAY + 3 * HOUR


@pytest.mark.parametrize(
    "zone",
    variants(["Pacific/Auckland", "Pacific/Honolulu", "Asia/Kolkata"], {"Pacific/Auckland", "Pacific/Honolulu"}),
)
def test_a_change_of_time_zone_never_gives_a_date_two_nights(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    pass_by(service, NOON, 24)
    choose(tenant, NOON + DAY, monkeypatch, time_zone=zone)
    pass_by(service, NOON + DAY, 72)
    choose(tenant, NOON + 4 * DAY, monkeypatch, time_zone="UTC")
    pass_by(service, NOON + 4 * DAY, 48)
    found = nights(service)
    assert set(Counter(found).values()) == {1}
    assert found == [date(2026, 3, 8) + n * DAY for n in range(len(found))], "no date is left out"
    assert found[-1] == date(2026, 3, 13)


# --- Manual runs ---


def test_a_run_by_hand_is_besides_the_scheduled_ones(service: Service, tenant: Tenant, sent: list[UUID]) -> None:
    run = schedule.run(tenant.tenant_id, "night")
    assert (run.kind, run.status, sent) == ("by_hand", "queued", [run.job_id])
    assert schedule.run(tenant.tenant_id, "night").run_id == run.run_id, "the run is still in progress"
    assert due(service) == FIRST
    tick(FIRST)
    assert nights(service) == [], "the night waits for the manual run"
    end(service)
    assert tick(FIRST + HOUR) == 1
    assert nights(service) == [date(2026, 3, 8)]
    assert schedule.run(tenant.tenant_id, "night").kind == "scheduled"


def test_a_job_that_is_no_run_stands_in_the_way_of_one(service: Service, tenant: Tenant) -> None:
    queue.create(tenant.tenant_id, "night", {})
    with pytest.raises(Conflict, match="not started by the schedule"):
        schedule.run(tenant.tenant_id, "night")
    tick(FIRST)
    assert runs(service) == []


def test_a_paused_schedule_runs_by_hand_alone(service: Service, tenant: Tenant) -> None:
    assert schedule.set_paused(tenant.tenant_id, "night", paused=True).schedule.paused
    tick(FIRST + 2 * DAY)
    assert runs(service) == []
    schedule.run(tenant.tenant_id, "night")
    end(service)
    assert not schedule.set_paused(tenant.tenant_id, "night", paused=False).schedule.paused
    tick(FIRST + 2 * DAY + HOUR)
    assert [(kind, missed) for kind, _, _, missed, _ in runs(service) if kind == "scheduled"] == [("scheduled", 2)]


def test_only_the_own_tenants_schedules_are_seen(service: Service, tenant: Tenant) -> None:
    schedule.run(tenant.tenant_id, "night")
    other = service.tenant().tenant_id
    assert schedule.list_runs(other, "night", None, 10) == []
    assert schedule.set_paused(other, "night", paused=True).last_run is None
    [own] = schedule.list_schedules(tenant.tenant_id)
    assert not own.schedule.paused
    with pytest.raises(NotFound, match="its schedules: night"):
        schedule.run(tenant.tenant_id, "day")


def test_a_run_goes_as_its_job_does(service: Service, tenant: Tenant) -> None:
    run = schedule.run(tenant.tenant_id, "night")
    assert run.job_id is not None
    queue.cancel(tenant.tenant_id, run.job_id)
    runner.run_slice(run.job_id)
    [found] = schedule.list_runs(tenant.tenant_id, "night", None, 10)
    assert (found.status, found.run_id, found.step) == ("cancelled", run.run_id, None)
    assert found.finished_at is not None


def test_a_new_tenant_has_its_schedule_before_the_first_tick(service: Service) -> None:
    tenant = service.tenant()
    [night] = schedule.list_schedules(tenant.tenant_id)
    assert night.schedule.task == "night"
    begun = schedule.run(service.tenant().tenant_id, "night")
    assert begun.kind == "by_hand"


def test_a_simulated_tenant_gets_no_schedule(service: Service) -> None:
    tenant_id = tenants.create_simulated("simulated", Policy(), NOON)
    assert schedule.list_schedules(tenant_id) == []
