"""The tick: schedules that are due become runs, and runs become messages.

A run row is unique by schedule and time, and a worker claims it before it starts, so any number of ticks and
doubled messages have one effect. After an outage, the times that were missed become one run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog

from app import metrics, queues
from app.services import jobs, policies
from app.services.cron import jitter, next_time
from app.services.passing import is_passing
from app.store import database, schedules
from app.store.schedules import NewRun, Schedule

_BATCH: Final = 200
_MISSED_TIMES_MAX: Final = 1000
_FAR: Final = timedelta(days=366)

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Row:
    """A line of the default schedule.

    Attributes:
        cron: Five fields, in the tenant's time zone.
        jitter_seconds: Tenants are spread over this long.
        grace_seconds: Later than this, a missed time is skipped.
    """

    task: str
    cron: str
    jitter_seconds: int
    grace_seconds: int


def tick(defaults: Sequence[Row], now: datetime | None = None) -> int:
    """Enter the runs that are due and send what the outbox holds. Returns how many messages were sent.

    Args:
        now: Instead of the database's clock, for tests.
    """
    for row in defaults:
        _complete(row, now)
    while _enter_due(now) == _BATCH:
        pass
    return _send()


def carry_out(run_id: UUID, work: Callable[[UUID], int]) -> None:
    """Do a run's work for its tenant, unless it is done or being done.

    Args:
        work: Takes the tenant, returns the rows it dealt with. It may be run again after a crash.
    """
    with database.shared() as tx:
        run = schedules.start(tx, run_id)
    if run is None:
        return
    try:
        rows = work(run.tenant_id)
    except Exception as error:
        if is_passing(error):
            raise  # the claim lapses, and a tick sends it again
        with database.shared() as tx:
            schedules.end(tx, run_id, "failed", 0, type(error).__name__)
        metrics.count("runs_failed")
        raise
    with database.shared() as tx:
        schedules.end(tx, run_id, "done", rows)
    metrics.count("runs_done")
    log.info("run_done", task=run.task, tenant=str(run.tenant_id), rows=rows)


def _complete(row: Row, now: datetime | None) -> None:
    """Give tenants that lack this row theirs."""
    with database.shared() as tx:
        lacking = schedules.tenants_lacking(tx, row.task, _BATCH)
        moment = now or database.now(tx)
    fresh = []
    for tenant_id in lacking:
        time_zone = policies.current(tenant_id).time_zone
        due = next_time(row.cron, time_zone, moment) or moment + _FAR
        fresh.append(
            {
                "tenant_id": tenant_id,
                "task": row.task,
                "cron": row.cron,
                "time_zone": time_zone,
                "jitter_seconds": row.jitter_seconds,
                "grace_seconds": row.grace_seconds,
                "next_run_at": due + jitter(tenant_id, row.task, row.jitter_seconds),
            }
        )
    with database.shared() as tx:
        schedules.add(tx, fresh)


def _enter_due(now: datetime | None) -> int:
    with database.shared() as tx:
        moment = now or database.now(tx)
        due = schedules.claim_due(tx, moment, _BATCH)
        if not due:
            return 0
        runs: list[NewRun] = []
        next_times: list[datetime] = []
        for schedule in due:
            if schedule.run_now:
                runs.append(NewRun(schedule, "by_hand", moment, coalesced=0, late=False))
            last, missed, following = _walk(schedule, moment)
            if last is not None:
                late = moment - last > timedelta(seconds=schedule.grace_seconds)
                runs.append(NewRun(schedule, "scheduled", last, coalesced=missed - 1, late=late))
            next_times.append(following)
        schedules.enter_runs(tx, runs)
        schedules.move_on(tx, [schedule.schedule_id for schedule in due], next_times)
    return len(due)


def _walk(schedule: Schedule, now: datetime) -> tuple[datetime | None, int, datetime]:
    """The last due time up to `now`, how many were due, and the first after it."""
    if schedule.paused or schedule.next_run_at > now:
        return None, 0, schedule.next_run_at
    delay = jitter(schedule.tenant_id, schedule.task, schedule.jitter_seconds)
    last, missed = schedule.next_run_at, 1
    while True:
        following = next_time(schedule.cron, schedule.time_zone, last - delay)
        if following is None:
            return last, missed, now + _FAR
        if following + delay > now:
            return last, missed, following + delay
        if missed >= _MISSED_TIMES_MAX:
            latest = next_time(schedule.cron, schedule.time_zone, now - delay)
            return last, missed, (latest + delay) if latest else now + _FAR
        last, missed = following + delay, missed + 1


def _send() -> int:
    """Send outbox rows, once more the runs whose message or worker was lost, and the jobs whose turn it is."""
    with database.shared() as tx:
        waiting = schedules.unsent(tx, _BATCH)
        again = schedules.unstarted(tx, _BATCH)
    for _, task, run_id in waiting:
        queues.enqueue(task, run_id, expires_seconds=None)
    for run_id, task in again:
        queues.enqueue(task, run_id, expires_seconds=None)
    if waiting:
        with database.shared() as tx:
            schedules.sent(tx, [outbox_id for outbox_id, _, _ in waiting])
    return len(waiting) + len(again) + jobs.send()
