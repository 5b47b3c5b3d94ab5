"""Store jobs: long-running work of tenants, claimed under a lease that the worker renews.

The table contains no memory content and has no row-level security. It also is the outbox of the job messages: its rows
alone determine which job is sent to a worker next. A job with an unexpired claim has been sent or is running; a job
without a claim waits at least until `claimed_until`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

import msgspec
from sqlalchemy import Connection, Row, text

from app.domain.jobs import Job, Step
from app.store.core.paging import Latest, Page, Place, build_one

LOG_LINES: Final = 200
RESEND_AFTER_SECONDS: Final = 20


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """A job that this worker has claimed.

    Attributes:
        attempts: Number of attempts at the next step, including the current one.
        cancel_wanted: True if a cancellation was requested; the job must end.
        age_seconds: Seconds since the job was created.
        run_seconds: Seconds since the job started.
    """

    job: Job
    attempts: int
    cancel_wanted: bool
    age_seconds: float
    run_seconds: float


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as shown to its tenant; lists omit `log`."""

    job_id: UUID
    kind: str
    status: str
    parameters: dict[str, Any]
    total: int | None
    done: int
    counts: dict[str, int]
    error: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    cancel_wanted: bool
    log: list[dict[str, str]] | None = None


def add(
    tx: Connection,
    job_id: UUID,
    tenant_id: UUID,
    kind: str,
    parameters: dict[str, Any],
    *,
    lone: bool,
    not_before: datetime | None = None,
) -> bool:
    """Insert a job. Return False if `lone` is set and the tenant already has an unfinished lone job of this kind.

    Args:
        lone: Allow at most one unfinished lone job of this kind per tenant.
        not_before: Earliest start; None means immediately.
    """
    values = {
        "job_id": job_id,
        "tenant_id": tenant_id,
        "kind": kind,
        "parameters": _json(parameters),
        "lone": lone,
        "not_before": not_before,
    }
    return tx.execute(_ADD, values).rowcount == 1


_ADD = text("""
INSERT INTO jobs (job_id, tenant_id, kind, parameters, lone, not_before, claimed_until)
VALUES (:job_id, :tenant_id, :kind, CAST(:parameters AS jsonb), :lone, :not_before,
  coalesce(CAST(:not_before AS timestamptz), now()))
ON CONFLICT (tenant_id, kind) WHERE lone AND status IN ('queued', 'running') DO NOTHING
""")


def find_lone(tx: Connection, tenant_id: UUID, kind: str) -> UUID | None:
    """Return the id of the tenant's unfinished lone job of this kind, or None if there is none."""
    job_id: UUID | None = tx.execute(_FIND_LONE, {"tenant_id": tenant_id, "kind": kind}).scalar()
    return job_id


_FIND_LONE = text("""
SELECT job_id FROM jobs
WHERE tenant_id = :tenant_id AND kind = :kind AND lone AND status IN ('queued', 'running')
""")


def has_put_off(tx: Connection, tenant_id: UUID, kind: str) -> bool:
    """Return True if a queued job of this kind has a `not_before` in the future."""
    return bool(tx.execute(_HAS_PUT_OFF, {"tenant_id": tenant_id, "kind": kind}).scalar_one())


_HAS_PUT_OFF = text("""
SELECT EXISTS (
  SELECT FROM jobs WHERE tenant_id = :tenant_id AND kind = :kind AND status = 'queued' AND not_before > now())
""")


def claim_for_sending(
    tx: Connection, at_once: int, kinds: Sequence[str], *, among: bool, yielding: str = "", passed_over_max: int = 0
) -> list[UUID]:
    """Claim due jobs to send them to workers, longest wait first, and return their ids.

    A job whose message was lost or whose worker died is due again once its claim expires. Rows locked by another sender
    are skipped.

    Args:
        at_once: Maximum number of selected jobs that may be sent or running at a time, over all tenants.
        kinds: The job kinds to which `among` refers.
        among: Select only jobs of these kinds; False selects only jobs of all other kinds.
        yielding: Select jobs of this kind only while no other selected job is due, or after `passed_over_max`.
        passed_over_max: Number of other jobs that are sent before the job of the yielding kind that has waited longest.
            After this number, that job is sent before all others, and its count returns to 0.
    """
    values = {"at_once": at_once, "after": RESEND_AFTER_SECONDS, "kinds": list(kinds), "among": among}
    values |= {"yielding": yielding, "passed_over_max": passed_over_max}
    return list(tx.execute(_SEND, values).scalars())


# Materialised: an inlined subquery may run once per row and select different jobs each time.
_SEND = text("""
WITH under_way AS MATERIALIZED (
  SELECT count(*) AS jobs FROM jobs
  WHERE status IN ('queued', 'running') AND claim IS NOT NULL AND claimed_until > now()
    AND (kind = ANY (CAST(:kinds AS text[]))) = :among
), due AS MATERIALIZED (
  SELECT job_id, kind FROM jobs
  WHERE status IN ('queued', 'running') AND claimed_until <= now() AND (kind = ANY (CAST(:kinds AS text[]))) = :among
  ORDER BY CASE WHEN kind <> :yielding THEN 1 WHEN passed_over >= :passed_over_max THEN 0 ELSE 2 END, claimed_until
  LIMIT greatest(0, :at_once - (SELECT jobs FROM under_way))
  FOR UPDATE SKIP LOCKED
), longest_waiting AS MATERIALIZED (
  SELECT job_id FROM jobs
  WHERE status IN ('queued', 'running') AND claimed_until <= now() AND (kind = ANY (CAST(:kinds AS text[]))) = :among
    AND kind = :yielding AND job_id NOT IN (SELECT job_id FROM due)
  ORDER BY claimed_until LIMIT 1
  FOR UPDATE SKIP LOCKED
), counted AS (
  UPDATE jobs SET passed_over = passed_over + (SELECT count(*) FROM due WHERE kind <> :yielding)
  WHERE job_id IN (SELECT job_id FROM longest_waiting) AND EXISTS (SELECT FROM due WHERE kind <> :yielding)
)
UPDATE jobs SET status = 'queued', claim = gen_random_uuid(), claimed_until = now() + make_interval(secs => :after),
  passed_over = 0
WHERE job_id IN (SELECT job_id FROM due)
RETURNING job_id
""")


def claim(tx: Connection, job_id: UUID, claim_id: UUID, lease_seconds: float) -> ClaimedJob | None:
    """Claim a job and count an attempt. Return None if it has ended, is postponed, or is leased by another worker."""
    values = {"job_id": job_id, "claim": claim_id, "lease": lease_seconds}
    row = tx.execute(_CLAIM, values).one_or_none()
    return None if row is None else _parse_claimed(row)


_HELD = """job_id, tenant_id, kind, parameters, state, total, done, attempts, cancel_wanted,
  CAST(extract(epoch FROM now() - created_at) AS float8) AS age_seconds,
  CAST(extract(epoch FROM now() - started_at) AS float8) AS run_seconds"""
_CLAIM = text(f"""
UPDATE jobs
SET status = 'running', started_at = coalesce(started_at, now()), attempts = attempts + 1, claim = :claim,
  claimed_until = now() + make_interval(secs => :lease)
WHERE job_id = :job_id
  AND ((status IN ('queued', 'running') AND claimed_until <= now()) OR (status = 'queued' AND claim IS NOT NULL))
RETURNING {_HELD}
""")  # noqa: S608 - built from constants


def renew_claim(tx: Connection, job_id: UUID, claim_id: UUID, lease_seconds: float) -> bool:
    """Extend the lease of a claimed job from now; return False if the claim is no longer valid."""
    return tx.execute(_RENEW, {"job_id": job_id, "claim": claim_id, "lease": lease_seconds}).rowcount == 1


_RENEW = text("""
UPDATE jobs SET claimed_until = now() + make_interval(secs => :lease)
WHERE job_id = :job_id AND claim = :claim AND status = 'running'
""")


def record_step(
    tx: Connection,
    job_id: UUID,
    claim_id: UUID,
    step: Step,
    *,
    then: Literal["queued", "running", "done", "failed"],
    lease_seconds: float,
) -> ClaimedJob | None:
    """Record the result of a step. Return None, without recording it, if the claim has passed to another worker.

    Args:
        then: The job's next status: `done` and `failed` end the job, `queued` releases the claim until the job is sent
            again, `running` renews the lease.
    """
    values = {
        "job_id": job_id,
        "claim": claim_id,
        "done": step.done,
        "state": _json(step.state),
        "total": step.total,
        "counts": _json(step.counts),
        "status": then,
        "error": step.failure,
        "lease": lease_seconds,
    }
    row = tx.execute(_NOTE, values | _lines(step.notes)).one_or_none()
    return None if row is None else _parse_claimed(row)


_LOGGED = """
CASE WHEN CAST(:notes AS jsonb) = '[]' THEN log ELSE (
  SELECT jsonb_agg(line ORDER BY place) FROM (
    SELECT line, place
    FROM jsonb_array_elements(log || (
      SELECT coalesce(jsonb_agg(jsonb_build_object('at', now(), 'message', message)), '[]')
      FROM jsonb_array_elements_text(CAST(:notes AS jsonb)) AS message)) WITH ORDINALITY AS every (line, place)
    ORDER BY place DESC LIMIT :lines) AS last)
END
"""
_NOTE = text(f"""
UPDATE jobs
SET status = :status, done = done + :done, state = CAST(:state AS jsonb), error = CAST(:error AS text),
  total = coalesce(CAST(:total AS bigint), total),
  counts = (
    SELECT coalesce(jsonb_object_agg(name, amount), '{{}}') FROM (
      SELECT name, sum(CAST(value AS bigint)) AS amount
      FROM (
        SELECT * FROM jsonb_each_text(counts) UNION ALL SELECT * FROM jsonb_each_text(CAST(:counts AS jsonb))
      ) AS every (name, value)
      GROUP BY name) AS added),
  log = {_LOGGED},
  attempts = CASE :status WHEN 'running' THEN 1 ELSE 0 END,
  claim = CASE :status WHEN 'running' THEN claim END,
  claimed_until = CASE :status
    WHEN 'running' THEN now() + make_interval(secs => :lease) WHEN 'queued' THEN now() END,
  finished_at = CASE WHEN :status IN ('done', 'failed') THEN now() END
WHERE job_id = :job_id AND claim = :claim
RETURNING {_HELD}
""")  # noqa: S608 - built from constants


def requeue(tx: Connection, job_id: UUID, claim_id: UUID, *, delay_seconds: float, forgive: bool, message: str) -> None:
    """Requeue a job whose step failed, for another attempt after a delay.

    Args:
        forgive: Don't count this attempt, because the job didn't cause the failure.
        message: A log line (a fixed phrase and an error type); omitted if it equals the last log line.
    """
    values = {"job_id": job_id, "claim": claim_id, "delay": delay_seconds, "forgiven": int(forgive)}
    tx.execute(_PUT_OFF, values | _lines([message]) | {"message": message})


_PUT_OFF = text(f"""
UPDATE jobs
SET status = 'queued', claim = NULL, claimed_until = now() + make_interval(secs => :delay),
  attempts = greatest(attempts - :forgiven, 0),
  log = CASE WHEN log->-1->>'message' = :message THEN log ELSE {_LOGGED} END
WHERE job_id = :job_id AND claim = :claim
""")  # noqa: S608 - built from constants


def count_attempts(tx: Connection, job_id: UUID, claim_id: UUID) -> int:
    """Return the number of attempts at a job's current step, including this one; 0 if the claim is no longer valid."""
    return int(tx.execute(_ATTEMPTS, {"job_id": job_id, "claim": claim_id}).scalar() or 0)


_ATTEMPTS = text("SELECT attempts FROM jobs WHERE job_id = :job_id AND claim = :claim")


def end_job(
    tx: Connection,
    job_id: UUID,
    claim_id: UUID,
    status: Literal["failed", "cancelled"],
    message: str,
    error: str | None = None,
) -> None:
    """End a job with this claim before its work is complete.

    Args:
        message: A line for the job's log.
        error: The error's type or a fixed phrase; never the error's message.
    """
    values = {"job_id": job_id, "claim": claim_id, "status": status, "error": error}
    tx.execute(_END, values | _lines([message]))


_END = text(f"""
UPDATE jobs
SET status = :status, error = :error, finished_at = now(), claim = NULL, claimed_until = NULL, log = {_LOGGED}
WHERE job_id = :job_id AND claim = :claim
""")  # noqa: S608 - built from constants


def request_cancel(tx: Connection, tenant_id: UUID, job_id: UUID) -> bool:
    """Request a job's cancellation; an unclaimed job becomes due at once. Return False for an ended or unknown job."""
    return tx.execute(_WANT_CANCEL, {"tenant_id": tenant_id, "job_id": job_id}).rowcount == 1


_WANT_CANCEL = text("""
UPDATE jobs SET cancel_wanted = true, claimed_until = CASE WHEN claim IS NULL THEN now() ELSE claimed_until END
WHERE tenant_id = :tenant_id AND job_id = :job_id AND status IN ('queued', 'running')
""")

_LISTED = (
    "job_id, kind, status, parameters, total, done, counts, error, created_at, started_at, finished_at, cancel_wanted"
)


def get(tx: Connection, tenant_id: UUID, job_id: UUID) -> JobView | None:
    """Return a tenant's job with its log, or None if it doesn't exist."""
    return build_one(JobView, tx.execute(_GET, {"tenant_id": tenant_id, "job_id": job_id}))


_GET = text(f"SELECT {_LISTED}, log FROM jobs WHERE tenant_id = :tenant_id AND job_id = :job_id")  # noqa: S608 - built from constants


def list_jobs(
    tx: Connection, tenant_id: UUID, status: str | None, kind: str | None, older_than: Place | None, limit: int
) -> Page[JobView]:
    """Return a page of a tenant's jobs, newest first, without their logs."""
    return _PAGES.read(tx, lambda row: JobView(*row), older_than, limit, tenant_id=tenant_id, status=status, kind=kind)


_PAGES: Final = Latest(f"""
SELECT {_LISTED} FROM jobs
WHERE tenant_id = :tenant_id
  AND (CAST(:status AS text) IS NULL OR status = CAST(:status AS text))
  AND (CAST(:kind AS text) IS NULL OR kind = CAST(:kind AS text))
ORDER BY created_at DESC, job_id""")  # noqa: S608 - constants only


def count_unfinished(
    tx: Connection, kinds: Sequence[str], tenant_id: UUID | None = None
) -> dict[bool, tuple[int, float]]:
    """Count the unfinished jobs of one tenant or of all tenants, with the age of the oldest in seconds.

    A job's age counts from its `not_before`, or from its creation if it has none. Jobs that may not start yet, such as
    erasures in their grace period, aren't counted.

    Args:
        kinds: Job kinds counted under True; all other jobs are counted under False.
    """
    groups = {
        row.among: (row.jobs, row.age) for row in tx.execute(_UNFINISHED, {"kinds": list(kinds), "of": tenant_id})
    }
    return {among: groups.get(among, (0, 0.0)) for among in (True, False)}


_UNFINISHED = text("""
SELECT kind = ANY (CAST(:kinds AS text[])) AS among, count(*) AS jobs,
  CAST(greatest(extract(epoch FROM now() - min(coalesce(not_before, created_at))), 0) AS double precision) AS age
FROM jobs
WHERE status IN ('queued', 'running') AND (not_before IS NULL OR not_before <= now())
  AND (CAST(:of AS uuid) IS NULL OR tenant_id = CAST(:of AS uuid))
GROUP BY among
""")


def _parse_claimed(row: Row[tuple[object, ...]]) -> ClaimedJob:
    job = Job(row.job_id, row.tenant_id, row.kind, row.parameters, row.state, row.total, row.done)
    return ClaimedJob(job, row.attempts, row.cancel_wanted, row.age_seconds, row.run_seconds)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _lines(notes: Sequence[str]) -> dict[str, object]:
    return {"notes": _json(notes[-LOG_LINES:]), "lines": LOG_LINES}
