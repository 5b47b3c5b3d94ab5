"""Store schedules and their runs. A run is inserted together with its job, from which the run's status is derived."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import date, datetime
from uuid import UUID, uuid4

from sqlalchemy import Connection, text

from app.store.core.paging import Latest, Page, Place, build_one


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule row, possibly locked by the caller's transaction.

    Attributes:
        task: The job kind that the schedule starts.
        next_run_at: Next due time, including the schedule's delay.
        last_date: The tenant's local date of the last due time; the next due time has a later date.
    """

    schedule_id: UUID
    tenant_id: UUID
    task: str
    paused: bool
    next_run_at: datetime
    last_date: date


_SCHEDULE = "schedule_id, tenant_id, task, paused, next_run_at, last_date"


@dataclass(frozen=True, slots=True)
class NewScheduleRun:
    """A run to be inserted.

    Attributes:
        kind: `scheduled` or `by_hand`.
        scheduled_for: The due time, or the time of the manual request.
        local_date: The tenant's local date; a schedule has at most one scheduled run per date.
        coalesced: Number of earlier, missed due times that this run replaces.
        job_id: The job that does the work; None if the run is skipped.
        skipped: The reason for skipping the run.
    """

    kind: str
    scheduled_for: datetime
    local_date: date
    coalesced: int = 0
    job_id: UUID | None = None
    skipped: str | None = None


@dataclass(frozen=True, slots=True)
class ScheduleRun:
    """A run as shown to its tenant.

    Attributes:
        status: `skipped`, `cut_short`, or the job's status.
        late_seconds: Time from the due time to the start; to now while the run waits; to the skip for a skipped run.
        seconds: Duration in seconds, until now for a running job; None before the start.
        step: The current step; for an ended run, the step at which it was cut short.
        left: Names of the unfinished steps, starting with the current step.
        failed: Error types by failed step.
        done: Number of rows processed; `counts` breaks this number down.
    """

    run_id: UUID
    task: str
    kind: str
    local_date: date
    scheduled_for: datetime
    late_seconds: float
    coalesced: int
    skipped: str | None
    status: str
    started_at: datetime | None
    finished_at: datetime | None
    seconds: float | None
    step: str | None
    left: list[str]
    failed: dict[str, str]
    done: int
    counts: dict[str, int]
    error: str | None
    job_id: UUID | None


_RUN = """
run.run_id, run.task, run.kind, run.local_date, run.scheduled_for,
CAST(greatest(extract(epoch FROM
  coalesce(job.started_at, CASE WHEN run.skipped IS NULL THEN now() ELSE run.entered_at END) - run.scheduled_for), 0)
  AS float8) AS late_seconds,
run.coalesced, run.skipped,
CASE WHEN run.skipped IS NOT NULL THEN 'skipped'
  WHEN job.status = 'done' AND job.state->>'cut_short' IS NOT NULL THEN 'cut_short'
  ELSE coalesce(job.status, 'done') END AS status,
job.started_at, job.finished_at,
CAST(extract(epoch FROM coalesce(job.finished_at, now()) - job.started_at) AS float8) AS seconds,
job.state->>'step' AS step, coalesce(job.state->'left', '[]') AS left, coalesce(job.state->'failed', '{}') AS failed,
coalesce(job.done, 0) AS done, coalesce(job.counts, '{}') AS counts, job.error, run.job_id
"""
_FROM = "FROM runs AS run LEFT JOIN jobs AS job ON job.job_id = run.job_id"


def list_tenants_lacking(tx: Connection, task: str, limit: int) -> list[UUID]:
    """Return tenants without a schedule row for this task, except simulated tenants and tenants being deleted."""
    return list(tx.execute(_LACKING, {"task": task, "limit": limit}).scalars())


_LACKING = text("""
SELECT tenant_id FROM tenants
WHERE NOT simulated AND deletion_id IS NULL
  AND NOT EXISTS (SELECT FROM schedules WHERE schedules.tenant_id = tenants.tenant_id AND schedules.task = :task)
LIMIT :limit
""")


def is_scheduled(tx: Connection, tenant_id: UUID) -> bool:
    """Return True if a tenant has schedules: every tenant that isn't simulated."""
    return tx.execute(_IS_SCHEDULED, {"tenant": tenant_id}).rowcount == 1


_IS_SCHEDULED = text("SELECT FROM tenants WHERE tenant_id = :tenant AND NOT simulated")


def add(tx: Connection, schedule: Schedule) -> None:
    """Insert a schedule; an existing one remains unchanged, and simulated tenants get none."""
    tx.execute(_ADD, asdict(schedule))


_ADD = text("""
INSERT INTO schedules (schedule_id, tenant_id, task, next_run_at, last_date)
SELECT :schedule_id, tenant_id, :task, :next_run_at, :last_date
FROM tenants WHERE tenant_id = :tenant_id AND NOT simulated
ON CONFLICT (tenant_id, task) DO NOTHING
""")

# While a manual run is in progress the schedule isn't due; it becomes due afterwards. A tenant that is being deleted
# has no nights.
_IS_DUE = """NOT paused AND next_run_at <= :now AND NOT EXISTS (
  SELECT FROM tenants WHERE tenants.tenant_id = schedules.tenant_id AND deletion_id IS NOT NULL) AND NOT EXISTS (
  SELECT FROM jobs WHERE jobs.tenant_id = schedules.tenant_id AND jobs.kind = schedules.task AND jobs.lone
    AND jobs.status IN ('queued', 'running'))"""


def list_due(tx: Connection, moment: datetime, limit: int) -> list[tuple[UUID, UUID]]:
    """Return the ids of due schedules and of their tenants, longest overdue first."""
    rows = tx.execute(_DUE, {"now": moment, "limit": limit})
    return [(row.schedule_id, row.tenant_id) for row in rows]


_DUE = text(f"""
SELECT schedule_id, tenant_id FROM schedules WHERE {_IS_DUE} ORDER BY next_run_at LIMIT :limit
""")  # noqa: S608 - built from constants


def claim(tx: Connection, schedule_id: UUID, moment: datetime) -> Schedule | None:
    """Lock and return a schedule. Return None if it is no longer due or another tick has locked it."""
    return build_one(Schedule, tx.execute(_CLAIM, {"schedule_id": schedule_id, "now": moment}))


_CLAIM = text(f"""
SELECT {_SCHEDULE} FROM schedules WHERE schedule_id = :schedule_id AND {_IS_DUE} FOR UPDATE SKIP LOCKED
""")  # noqa: S608 - built from constants


def lock(tx: Connection, tenant_id: UUID) -> list[Schedule]:
    """Lock and return a tenant's schedules, ordered by task."""
    return [Schedule(*row) for row in tx.execute(_LOCK, {"tenant_id": tenant_id})]


_LOCK = text(f"""
SELECT {_SCHEDULE} FROM schedules WHERE tenant_id = :tenant_id ORDER BY task FOR UPDATE
""")  # noqa: S608 - built from constants


def list_by_tenant(tx: Connection, tenant_id: UUID) -> list[Schedule]:
    """Return a tenant's schedules, ordered by task."""
    return [Schedule(*row) for row in tx.execute(_OF_TENANT, {"tenant_id": tenant_id})]


_OF_TENANT = text(f"SELECT {_SCHEDULE} FROM schedules WHERE tenant_id = :tenant_id ORDER BY task")  # noqa: S608


def insert_run(tx: Connection, schedule: Schedule, run: NewScheduleRun, moment: datetime) -> bool:
    """Insert a run. Return False if the schedule already has a scheduled run for this date.

    The caller has locked the schedule.
    """
    values: dict[str, object] = {"run_id": uuid4(), "entered_at": moment} | asdict(run)
    values |= {name: getattr(schedule, name) for name in ("schedule_id", "tenant_id", "task")}
    return tx.execute(_ENTER, values).rowcount == 1


_ENTER = text("""
INSERT INTO runs (run_id, schedule_id, tenant_id, task, kind, scheduled_for, local_date, coalesced, job_id, skipped,
  entered_at)
VALUES (:run_id, :schedule_id, :tenant_id, :task, :kind, :scheduled_for, :local_date, :coalesced, :job_id, :skipped,
  :entered_at)
ON CONFLICT (schedule_id, local_date) WHERE kind = 'scheduled' DO NOTHING
""")


def move_on(tx: Connection, schedule_id: UUID, last_date: date, next_run_at: datetime) -> None:
    """Set a schedule's next due time and the date of its last due time."""
    tx.execute(_MOVE_ON, {"schedule_id": schedule_id, "last_date": last_date, "next_run_at": next_run_at})


_MOVE_ON = text("""
UPDATE schedules SET next_run_at = :next_run_at, last_date = :last_date WHERE schedule_id = :schedule_id
""")


def set_paused(tx: Connection, schedule_id: UUID, *, paused: bool) -> None:
    """Pause or resume a schedule."""
    tx.execute(_PAUSE, {"schedule_id": schedule_id, "paused": paused})


_PAUSE = text("UPDATE schedules SET paused = :paused WHERE schedule_id = :schedule_id")


def list_runs(tx: Connection, tenant_id: UUID, task: str, older_than: Place | None, limit: int) -> Page[ScheduleRun]:
    """Return a page of runs of a tenant's schedule, newest first."""
    return _PAGES.read(tx, lambda row: ScheduleRun(*row), older_than, limit, tenant_id=tenant_id, task=task)


_PAGES = Latest(f"""
SELECT {_RUN} {_FROM} WHERE run.tenant_id = :tenant_id AND run.task = :task
ORDER BY run.scheduled_for DESC, run.run_id""")


def find_by_job(tx: Connection, tenant_id: UUID, job_id: UUID) -> ScheduleRun | None:
    """Return the run to which a job belongs, or None if it belongs to no run."""
    return build_one(ScheduleRun, tx.execute(_OF_JOB, {"tenant_id": tenant_id, "job_id": job_id}))


_OF_JOB = text(f"SELECT {_RUN} {_FROM} WHERE run.tenant_id = :tenant_id AND run.job_id = :job_id")


def cut_short(tx: Connection, tenant_id: UUID, task: str) -> str | None:
    """Return the step at which the latest finished run was cut short; None if it wasn't, or no run has finished."""
    step: str | None = tx.execute(_CUT_SHORT, {"tenant_id": tenant_id, "task": task}).scalar()
    return step


_CUT_SHORT = text(f"""
SELECT job.state->>'cut_short' {_FROM}
WHERE run.tenant_id = :tenant_id AND run.task = :task AND job.finished_at IS NOT NULL
ORDER BY run.scheduled_for DESC LIMIT 1
""")


@dataclass(frozen=True, slots=True)
class RunStatistics:
    """Statistics over the latest started run of a task in each tenant; skipped and waiting runs are ignored.

    Attributes:
        overdue_seconds: Time since the due time of the longest overdue schedule; 0 if none is overdue.
        late_seconds: Longest start delay.
        seconds: Longest duration.
        cut_short: Number of runs cut short.
        failed: Number of runs in which a step failed, by step.
    """

    overdue_seconds: float
    late_seconds: float
    seconds: float
    cut_short: int
    failed: dict[str, int]


def read_statistics(tx: Connection, task: str) -> RunStatistics:
    """Return statistics over the latest started run of a task in each tenant."""
    row = tx.execute(_FIGURES, {"task": task}).one()
    return RunStatistics(row.overdue, row.late, row.seconds, row.cut_short, row.failed)


_FIGURES = text("""
WITH last AS (
  SELECT run.* FROM schedules AS schedule CROSS JOIN LATERAL (
    SELECT job.status, job.state, greatest(extract(epoch FROM job.started_at - run.scheduled_for), 0) AS late,
      extract(epoch FROM coalesce(job.finished_at, now()) - job.started_at) AS seconds
    FROM runs AS run JOIN jobs AS job ON job.job_id = run.job_id
    WHERE run.tenant_id = schedule.tenant_id AND run.task = schedule.task AND job.started_at IS NOT NULL
    ORDER BY run.scheduled_for DESC LIMIT 1
  ) AS run
  WHERE schedule.task = :task
)
SELECT
  CAST(coalesce((SELECT greatest(extract(epoch FROM now() - min(next_run_at)), 0) FROM schedules
    WHERE task = :task AND NOT paused), 0) AS float8) AS overdue,
  CAST(coalesce(max(late), 0) AS float8) AS late, CAST(coalesce(max(seconds), 0) AS float8) AS seconds,
  count(*) FILTER (WHERE status = 'done' AND state->>'cut_short' IS NOT NULL) AS cut_short,
  coalesce((SELECT jsonb_object_agg(step, tenants) FROM (
    SELECT step, count(*) AS tenants FROM last, LATERAL (
      SELECT jsonb_object_keys(state->'failed') AS step
      UNION SELECT state->>'step' WHERE status = 'failed' AND state->>'step' IS NOT NULL) AS steps
    GROUP BY step) AS by_step), '{}') AS failed
FROM last
""")
