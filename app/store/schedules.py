"""Schedules, their runs, and the outbox through which runs are sent to workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID, uuid4

from sqlalchemy import Connection, text

RUN_LEASE_SECONDS: Final = 360
RESEND_AFTER_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Schedule:
    """A row that is due, locked by the caller's transaction."""

    schedule_id: UUID
    tenant_id: UUID
    task: str
    cron: str
    time_zone: str
    jitter_seconds: int
    grace_seconds: int
    paused: bool
    run_now: bool
    next_run_at: datetime


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to be entered.

    Attributes:
        coalesced: How many missed times it stands for besides its own.
        late: Whether it comes after its grace, and is only noted as skipped.
    """

    schedule: Schedule
    kind: str
    scheduled_for: datetime
    coalesced: int
    late: bool


@dataclass(frozen=True, slots=True)
class Run:
    """A run that is ours."""

    run_id: UUID
    tenant_id: UUID
    task: str


def tenants_lacking(tx: Connection, task: str, limit: int) -> list[UUID]:
    """Tenants without a schedule row for this task."""
    return list(tx.execute(_LACKING, {"task": task, "limit": limit}).scalars())


_LACKING = text("""
SELECT tenant_id FROM tenants
WHERE NOT EXISTS (SELECT FROM schedules WHERE schedules.tenant_id = tenants.tenant_id AND schedules.task = :task)
LIMIT :limit
""")


def add(tx: Connection, rows: Sequence[dict[str, object]]) -> None:
    """Insert schedule rows; one that exists already stays as it is."""
    if rows:
        tx.execute(_ADD, [{"schedule_id": uuid4(), **row} for row in rows])


_ADD = text("""
INSERT INTO schedules (schedule_id, tenant_id, task, cron, time_zone, jitter_seconds, grace_seconds, next_run_at)
VALUES (:schedule_id, :tenant_id, :task, :cron, :time_zone, :jitter_seconds, :grace_seconds, :next_run_at)
ON CONFLICT (tenant_id, task) DO NOTHING
""")


def claim_due(tx: Connection, moment: datetime, limit: int) -> list[Schedule]:
    """Rows that are due at `moment` or to be run by hand, locked; those of another tick are skipped."""
    return [Schedule(*row) for row in tx.execute(_DUE, {"now": moment, "limit": limit})]


_DUE = text("""
SELECT schedule_id, tenant_id, task, cron, time_zone, jitter_seconds, grace_seconds, paused, run_now, next_run_at
FROM schedules
WHERE (NOT paused AND next_run_at <= :now) OR run_now
ORDER BY next_run_at LIMIT :limit FOR UPDATE SKIP LOCKED
""")


def enter_runs(tx: Connection, runs: Sequence[NewRun]) -> None:
    """Write runs and their outbox rows; a run that is there already is left alone."""
    if not runs:
        return
    values = {
        "run_ids": [uuid4() for _ in runs],
        "schedule_ids": [run.schedule.schedule_id for run in runs],
        "tenant_ids": [run.schedule.tenant_id for run in runs],
        "tasks": [run.schedule.task for run in runs],
        "kinds": [run.kind for run in runs],
        "moments": [run.scheduled_for for run in runs],
        "coalesced": [run.coalesced for run in runs],
        "statuses": ["skipped" if run.late else "queued" for run in runs],
        "resend_after": RESEND_AFTER_SECONDS,
    }
    tx.execute(_ENTER, values)


_ENTER = text("""
WITH entered AS (
  INSERT INTO runs (run_id, schedule_id, tenant_id, task, kind, scheduled_for, coalesced, status, claimed_until)
  SELECT given.*, now() + make_interval(secs => :resend_after) FROM unnest(
    CAST(:run_ids AS uuid[]), CAST(:schedule_ids AS uuid[]), CAST(:tenant_ids AS uuid[]), CAST(:tasks AS text[]),
    CAST(:kinds AS text[]), CAST(:moments AS timestamptz[]), CAST(:coalesced AS int[]), CAST(:statuses AS text[])
  ) AS given
  ON CONFLICT (schedule_id, scheduled_for, kind) DO NOTHING
  RETURNING run_id, task, status
)
INSERT INTO outbox (task, argument) SELECT task, run_id FROM entered WHERE status = 'queued'
""")


def move_on(tx: Connection, schedule_ids: Sequence[UUID], next_times: Sequence[datetime]) -> None:
    """Set when each schedule is due next, and that its run by hand was seen to."""
    tx.execute(_MOVE_ON, {"schedule_ids": list(schedule_ids), "next_times": list(next_times)})


_MOVE_ON = text("""
UPDATE schedules SET next_run_at = given.next_run_at, run_now = false
FROM unnest(CAST(:schedule_ids AS uuid[]), CAST(:next_times AS timestamptz[])) AS given (schedule_id, next_run_at)
WHERE schedules.schedule_id = given.schedule_id
""")


def unsent(tx: Connection, limit: int) -> list[tuple[int, str, UUID]]:
    """Outbox rows: id, task, argument; oldest first."""
    return [(row.outbox_id, row.task, row.argument) for row in tx.execute(_UNSENT, {"limit": limit})]


_UNSENT = text("SELECT outbox_id, task, argument FROM outbox ORDER BY outbox_id LIMIT :limit")


def sent(tx: Connection, outbox_ids: Sequence[int]) -> None:
    """Remove outbox rows whose message is out."""
    tx.execute(_SENT, {"outbox_ids": list(outbox_ids)})


_SENT = text("DELETE FROM outbox WHERE outbox_id = ANY(:outbox_ids)")


def unstarted(tx: Connection, limit: int) -> list[tuple[UUID, str]]:
    """Runs whose message was lost or whose worker died, given back to the outbox's care: id, task."""
    values = {"limit": limit, "after": RESEND_AFTER_SECONDS}
    return [(row.run_id, row.task) for row in tx.execute(_UNSTARTED, values)]


_UNSTARTED = text("""
UPDATE runs SET status = 'queued', claimed_until = now() + make_interval(secs => :after)
WHERE run_id IN (
  SELECT run_id FROM runs
  WHERE status IN ('queued', 'running') AND coalesce(claimed_until, scheduled_for) < now()
  ORDER BY scheduled_for LIMIT :limit FOR UPDATE SKIP LOCKED
)
RETURNING run_id, task
""")


def unfinished(tx: Connection, tenant_id: UUID | None = None) -> tuple[int, float]:
    """Runs that wait or go on, of a tenant or of all, and the seconds since the oldest was due."""
    row = tx.execute(_UNFINISHED, {"tenant_id": tenant_id}).one()
    return row.runs, row.age


_UNFINISHED = text("""
SELECT count(*) AS runs,
  CAST(greatest(coalesce(extract(epoch FROM now() - min(scheduled_for)), 0), 0) AS double precision) AS age
FROM runs
WHERE status IN ('queued', 'running')
  AND (CAST(:tenant_id AS uuid) IS NULL OR tenant_id = CAST(:tenant_id AS uuid))
""")


def start(tx: Connection, run_id: UUID) -> Run | None:
    """Claim a run. None when it is done, or another worker has it."""
    row = tx.execute(_START, {"run_id": run_id, "lease": RUN_LEASE_SECONDS}).one_or_none()
    return Run(row.run_id, row.tenant_id, row.task) if row else None


_START = text("""
UPDATE runs
SET status = 'running', started_at = coalesce(started_at, now()), claimed_until = now() + make_interval(secs => :lease)
WHERE run_id = :run_id
  AND (status = 'queued' OR (status = 'running' AND claimed_until < now()))
RETURNING run_id, tenant_id, task
""")


def end(tx: Connection, run_id: UUID, status: str, rows: int, error: str | None = None) -> None:
    """Write how a run ended.

    Args:
        status: `done` or `failed`.
        rows: Rows it dealt with.
        error: The error's type; never its message.
    """
    tx.execute(_END, {"run_id": run_id, "status": status, "rows": rows, "error": error})


_END = text("""
UPDATE runs SET status = :status, rows = :rows, error = :error, finished_at = now(), claimed_until = NULL
WHERE run_id = :run_id
""")
