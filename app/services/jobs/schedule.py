"""Turn due schedules into runs, each of which is a job, and manage a tenant's schedules.

A due run and its job are inserted in one transaction, at most once per local date of the tenant: repeated ticks and
duplicate messages have no effect. A single run replaces the runs missed during an outage. If the last missed run is
more than the policy's `catch_up_hours` late, it is recorded as skipped, and no run starts.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import structlog

from app.domain.dynamics.timeline import Era, Timeline
from app.domain.policy.policy import Policy
from app.domain.privacy.audit_chain import SYSTEM
from app.errors import Conflict, NotFound
from app.services.jobs import queue
from app.services.jobs.cron import next_time, tenant_jitter
from app.services.security import audit
from app.services.strength import memory_strength
from app.settings import settings
from app.store.core import database
from app.store.core.paging import Page, Place
from app.store.jobs import jobs, schedules
from app.store.jobs.schedules import NewScheduleRun, Schedule, ScheduleRun

DEFAULT_SCHEDULE: Final = ("night",)
"""Kinds of jobs for which every tenant has a schedule, except simulated tenants."""
_BATCH: Final = 200
_MISSED_DAYS_MAX: Final = 1000
_DAY: Final = timedelta(days=1)

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Occurrence:
    """One occurrence of a schedule.

    Attributes:
        at: Start time, including the tenant's jitter.
        local_date: The tenant's local date of the start, without jitter.
        policy: The policy that determines the occurrence.
    """

    at: datetime
    local_date: date
    policy: Policy


@dataclass(frozen=True)
class ScheduleView:
    """A schedule as shown to its tenant.

    Attributes:
        policy: The policy in force.
        late_seconds: Time since the schedule became due; 0 while it is paused or not yet due.
        last_run: The newest run; None if there is none.
    """

    schedule: Schedule
    policy: Policy
    late_seconds: float
    last_run: ScheduleRun | None


def insert_due_runs(tasks: Sequence[str], now: datetime | None = None) -> int:
    """Insert due runs for at most `slice_seconds`, then send the next jobs. Return the number of jobs sent.

    Args:
        tasks: Kinds of jobs for which every tenant has a schedule.
        now: Replaces the database's clock in tests.
    """
    with database.shared() as tx:
        moment = now or database.now(tx)
    for task in tasks:
        _complete(task, moment)
    deadline = time.monotonic() + settings().slice_seconds
    while time.monotonic() < deadline:
        with database.shared() as tx:
            due = schedules.list_due(tx, moment, _BATCH)
        for schedule_id, tenant_id in due:
            _start_due_run(schedule_id, tenant_id, moment)
        if len(due) < _BATCH:
            break
    return queue.send_jobs()


def follow_policy(tx: database.Transaction, tenant_id: UUID) -> None:
    """Recompute the next run times of a tenant's schedules; call this in the transaction that adds a policy."""
    times = memory_strength.load_timeline(tx, tenant_id)
    for schedule in schedules.lock(tx, tenant_id):
        schedules.move_on(
            tx,
            schedule.schedule_id,
            schedule.last_date,
            next_occurrence(times, tenant_id, schedule.task, schedule.last_date).at,
        )


def list_schedules(tenant_id: UUID) -> list[ScheduleView]:
    """List a tenant's schedules by name."""
    with database.tenant(tenant_id) as tx:
        now = database.now(tx)
        policy = memory_strength.load_timeline(tx, tenant_id).at(now.timestamp()).policy
        return [_build_view(tx, schedule, policy, now) for schedule in _list(tx, tenant_id)]


def list_runs(tenant_id: UUID, task: str, older_than: Place | None, limit: int) -> Page[ScheduleRun]:
    """List a schedule's runs, newest first, starting after `older_than` (time and id).

    Raises:
        NotFound: The tenant has no such schedule.
    """
    with database.tenant(tenant_id) as tx:
        _find_schedule(_list(tx, tenant_id), task)
        return schedules.list_runs(tx, tenant_id, task, older_than, limit)


def run(tenant_id: UUID, task: str, as_of: datetime | None = None, actor: str = SYSTEM) -> ScheduleRun:
    """Start a run now, even if the schedule is paused; return the new run, or the run already in progress.

    Args:
        as_of: The time that the whole run uses as now; None for the current time.
        actor: Id of the caller's API key.

    Raises:
        NotFound: The tenant has no such schedule.
        Conflict: A job of this kind that isn't a run of the schedule is in progress.
        Invalid: `as_of` is in the future.
    """
    parameters = queue.evaluation_parameters(as_of)
    with database.tenant(tenant_id) as tx:
        schedule = _find_schedule(_lock(tx, tenant_id), task)
        moment, job_id = database.now(tx), uuid4()
        while not jobs.add(tx, job_id, tenant_id, task, parameters or _parameters(moment), lone=True):
            running_id = jobs.find_lone(tx, tenant_id, task)
            if running_id is not None:
                return _job_fields(tx, tenant_id, running_id)
        zone = memory_strength.load_timeline(tx, tenant_id).at(moment.timestamp()).policy.time_zone
        local_date = moment.astimezone(ZoneInfo(zone)).date()
        schedules.insert_run(tx, schedule, NewScheduleRun("by_hand", moment, local_date, job_id=job_id), moment)
        started = _job_fields(tx, tenant_id, job_id)
        audit.append(tx, tenant_id, "job_started", actor, details={"job": str(job_id), "kind": task})
    queue.send_quietly()
    return started


def require_schedule(tenant_id: UUID, task: str) -> None:
    """Raise NotFound if the tenant has no such schedule."""
    with database.tenant(tenant_id) as tx:
        _find_schedule(_list(tx, tenant_id), task)


def set_paused(tenant_id: UUID, task: str, *, paused: bool) -> ScheduleView:
    """Pause or resume a schedule. A run in progress continues.

    After resuming, a single run replaces the missed runs, if the last of them is at most `catch_up_hours` late.

    Raises:
        NotFound: The tenant has no such schedule.
    """
    with database.tenant(tenant_id) as tx:
        schedule = _find_schedule(_lock(tx, tenant_id), task)
        schedules.set_paused(tx, schedule.schedule_id, paused=paused)
        now = database.now(tx)
        policy = memory_strength.load_timeline(tx, tenant_id).at(now.timestamp()).policy
        return _build_view(tx, _find_schedule(schedules.list_by_tenant(tx, tenant_id), task), policy, now)


def next_occurrence(times: Timeline, tenant_id: UUID, task: str, last_date: date) -> Occurrence:
    """Return the first occurrence on a later date than `last_date`, under the policy in force at that time.

    If a policy change moves the start of the next run to a time before the change, the run is due at the time of the
    change.
    """
    eras = times.eras
    ends = [era.since for era in eras[1:]] + [float("inf")]
    for era, end in zip(eras, ends, strict=True):
        due = _occurrence_in_era(era, tenant_id, task, last_date)
        if due.at.timestamp() < end:
            return due
    raise AssertionError("the last policy holds for ever")


def _occurrence_in_era(era: Era, tenant_id: UUID, task: str, last_date: date) -> Occurrence:
    night, zone = era.policy.night, ZoneInfo(era.policy.time_zone)
    day = last_date + _DAY
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)
    start = next_time(night.cron, era.policy.time_zone, midnight - timedelta(microseconds=1))
    if start is None:
        raise AssertionError("the cron expression of a nightly run always has a next time")
    at = start + tenant_jitter(tenant_id, task, night.jitter_seconds)
    if at.timestamp() < era.since:
        at = datetime.fromtimestamp(era.since, UTC)
    return Occurrence(at, start.astimezone(zone).date(), era.policy)


def _complete(task: str, moment: datetime) -> None:
    """Insert missing schedules of a task."""
    with database.shared() as tx:
        tenant_ids = schedules.list_tenants_lacking(tx, task, _BATCH)
    for tenant_id in tenant_ids:
        with database.tenant(tenant_id) as tx:
            schedules.add(tx, _plan(tx, tenant_id, task, moment))


def _list(tx: database.Transaction, tenant_id: UUID) -> list[Schedule]:
    """Return a tenant's schedules; for a new tenant, the schedules that the next tick will insert."""
    found = schedules.list_by_tenant(tx, tenant_id)
    if found or not schedules.is_scheduled(tx, tenant_id):
        return found
    moment = database.now(tx)
    return [_plan(tx, tenant_id, task, moment) for task in DEFAULT_SCHEDULE]


def _lock(tx: database.Transaction, tenant_id: UUID) -> list[Schedule]:
    """Lock and return a tenant's schedules; insert them first if no tick has inserted them yet (new tenant)."""
    found = schedules.lock(tx, tenant_id)
    if not found:
        moment = database.now(tx)
        for task in DEFAULT_SCHEDULE:
            schedules.add(tx, _plan(tx, tenant_id, task, moment))
        found = schedules.lock(tx, tenant_id)
    return found


def _plan(tx: database.Transaction, tenant_id: UUID, task: str, moment: datetime) -> Schedule:
    """Return a new schedule of a task for a tenant; an occurrence that has already passed today is skipped."""
    times = memory_strength.load_timeline(tx, tenant_id)
    zone = ZoneInfo(times.at(moment.timestamp()).policy.time_zone)
    last_date = moment.astimezone(zone).date() - _DAY
    due = next_occurrence(times, tenant_id, task, last_date)
    if due.at <= moment:
        last_date = due.local_date
        due = next_occurrence(times, tenant_id, task, last_date)
    return Schedule(uuid4(), tenant_id, task, paused=False, next_run_at=due.at, last_date=last_date)


def _start_due_run(schedule_id: UUID, tenant_id: UUID, moment: datetime) -> None:
    """Insert the run of a due schedule with its job, and set the schedule's next run time."""
    with database.tenant(tenant_id) as tx:
        schedule = schedules.claim(tx, schedule_id, moment)
        if schedule is None:
            return
        last, missed, upcoming = _last_due(schedule, memory_strength.load_timeline(tx, tenant_id), moment)
        if last is not None:
            hours = last.policy.night.catch_up_hours
            if moment - last.at > timedelta(hours=hours):
                reason = f"not started within {hours:g} hours of the scheduled time"
                new_run = NewScheduleRun("scheduled", last.at, last.local_date, missed - 1, skipped=reason)
            else:
                job_id = uuid4()
                if not jobs.add(tx, job_id, tenant_id, schedule.task, _parameters(moment), lone=True):
                    return  # another run of this kind is in progress; the schedule remains due
                new_run = NewScheduleRun("scheduled", last.at, last.local_date, missed - 1, job_id)
            schedules.insert_run(tx, schedule, new_run, moment)
        schedules.move_on(tx, schedule_id, last.local_date if last else schedule.last_date, upcoming.at)


def _last_due(held: Schedule, times: Timeline, moment: datetime) -> tuple[Occurrence | None, int, Occurrence]:
    """Return the last occurrence due by `moment` or None, how many occurrences are due, and the first later one."""
    last, missed = None, 0
    since = max(held.last_date, moment.date() - timedelta(days=_MISSED_DAYS_MAX))
    upcoming = next_occurrence(times, held.tenant_id, held.task, since)
    while upcoming.at <= moment:
        last, missed = upcoming, missed + 1
        upcoming = next_occurrence(times, held.tenant_id, held.task, last.local_date)
    return last, missed, upcoming


def _parameters(moment: datetime) -> dict[str, str]:
    return {"as_of": moment.isoformat()}


def _find_schedule(found: Sequence[Schedule], task: str) -> Schedule:
    for candidate in found:
        if candidate.task == task:
            return candidate
    names = ", ".join(schedule.task for schedule in found) or "none"
    raise NotFound(f"this tenant has no schedule of this name; its schedules: {names}")


def _job_fields(tx: database.Transaction, tenant_id: UUID, job_id: UUID) -> ScheduleRun:
    run_of_job = schedules.find_by_job(tx, tenant_id, job_id)
    if run_of_job is None:
        raise Conflict(f"the job {job_id}, not started by the schedule, is running this task: wait until it ends")
    return run_of_job


def _build_view(tx: database.Transaction, held: Schedule, policy: Policy, now: datetime) -> ScheduleView:
    late = 0.0 if held.paused else max((now - held.next_run_at).total_seconds(), 0.0)
    last = schedules.list_runs(tx, held.tenant_id, held.task, None, 1)
    return ScheduleView(held, policy, late, last[0] if last else None)
