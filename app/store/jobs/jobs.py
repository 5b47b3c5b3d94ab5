"""Jobs: long work of tenants, claimed under leases that each step renews. No content, no row-level security.

A job's row is its own outbox: whose turn it is to be sent to a worker is read from the rows alone. `claim` and
`claimed_until` say together where a job is: with a claim that holds, its message or its worker is on the way;
without one it waits, until `claimed_until` at least.
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

LOG_LINES: Final = 200
RESEND_AFTER_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Held:
    """A job that is ours.

    Attributes:
        attempts: How often its next step has been tried, this time included.
        cancel_wanted: Whether it shall end instead.
        age_seconds: Since it was entered.
        run_seconds: Since it began.
    """

    job: Job
    attempts: int
    cancel_wanted: bool
    age_seconds: float
    run_seconds: float


@dataclass(frozen=True, slots=True)
class Listed:
    """A job as its tenant sees it; `log` is left out of lists."""

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
    """Enter a job. False where it is a lone one and the tenant has an unfinished one of its kind.

    Args:
        not_before: When it may begin; at once where left out.
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
    """The unfinished lone job of a kind."""
    found: UUID | None = tx.execute(_FIND_LONE, {"tenant_id": tenant_id, "kind": kind}).scalar()
    return found


_FIND_LONE = text("""
SELECT job_id FROM jobs
WHERE tenant_id = :tenant_id AND kind = :kind AND lone AND status IN ('queued', 'running')
""")


def has_put_off(tx: Connection, tenant_id: UUID, kind: str) -> bool:
    """Whether a job of a kind is entered that may not begin yet."""
    return bool(tx.execute(_HAS_PUT_OFF, {"tenant_id": tenant_id, "kind": kind}).scalar_one())


_HAS_PUT_OFF = text("""
SELECT EXISTS (
  SELECT FROM jobs WHERE tenant_id = :tenant_id AND kind = :kind AND status = 'queued' AND not_before > now())
""")


def send(tx: Connection, at_once: int, kinds: Sequence[str], *, among: bool) -> list[UUID]:
    """Jobs whose turn it is to be sent, those that have waited longest first; they count as on their way now.

    Among them are those whose message was lost or whose worker died.

    Args:
        at_once: Most jobs on their way or in a worker's hands, of all tenants.
        kinds: Some kinds of jobs.
        among: Whether it is of jobs of these kinds; else of all others.
    """
    values = {"at_once": at_once, "after": RESEND_AFTER_SECONDS, "kinds": list(kinds), "among": among}
    return list(tx.execute(_SEND, values).scalars())


# Materialised: as a subquery it may be run for each row, and each time find others.
_SEND = text("""
WITH under_way AS MATERIALIZED (
  SELECT count(*) AS jobs FROM jobs
  WHERE status IN ('queued', 'running') AND claim IS NOT NULL AND claimed_until > now()
    AND (kind = ANY (CAST(:kinds AS text[]))) = :among
), due AS MATERIALIZED (
  SELECT job_id FROM jobs
  WHERE status IN ('queued', 'running') AND claimed_until <= now() AND (kind = ANY (CAST(:kinds AS text[]))) = :among
  ORDER BY claimed_until LIMIT greatest(0, :at_once - (SELECT jobs FROM under_way)) FOR UPDATE SKIP LOCKED
)
UPDATE jobs SET status = 'queued', claim = gen_random_uuid(), claimed_until = now() + make_interval(secs => :after)
WHERE job_id IN (SELECT job_id FROM due)
RETURNING job_id
""")


def claim(tx: Connection, job_id: UUID, claim_id: UUID, lease_seconds: float) -> Held | None:
    """Claim a job, and count a try. None where it has ended, is in another's hands, or is put off."""
    values = {"job_id": job_id, "claim": claim_id, "lease": lease_seconds}
    row = tx.execute(_CLAIM, values).one_or_none()
    return None if row is None else _held(row)


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
""")  # noqa: S608 - put together of constants


def note(
    tx: Connection,
    job_id: UUID,
    claim_id: UUID,
    step: Step,
    *,
    then: Literal["queued", "running", "done", "failed"],
    lease_seconds: float,
) -> Held | None:
    """Write what a step has done. None where the claim has passed to another, whose step counts instead.

    Args:
        then: Whether the job ends, waits for its next turn, or goes on under a renewed lease.
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
    return None if row is None else _held(row)


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
""")  # noqa: S608 - put together of constants


def put_off(tx: Connection, job_id: UUID, claim_id: UUID, *, delay_seconds: float, forgive: bool, message: str) -> None:
    """Let a job whose step failed wait for another try.

    Args:
        forgive: Whether the try doesn't count, since it failed for no fault of the job's.
        message: A line for its log, unless that ends with it: a fixed phrase and an error's type.
    """
    values = {"job_id": job_id, "claim": claim_id, "delay": delay_seconds, "forgiven": int(forgive)}
    tx.execute(_PUT_OFF, values | _lines([message]) | {"message": message})


_PUT_OFF = text(f"""
UPDATE jobs
SET status = 'queued', claim = NULL, claimed_until = now() + make_interval(secs => :delay),
  attempts = greatest(attempts - :forgiven, 0),
  log = CASE WHEN log->-1->>'message' = :message THEN log ELSE {_LOGGED} END
WHERE job_id = :job_id AND claim = :claim
""")  # noqa: S608 - put together of constants


def attempts(tx: Connection, job_id: UUID, claim_id: UUID) -> int:
    """How often the step of a job that is ours has been tried, this time included; 0 where it is not ours."""
    return int(tx.execute(_ATTEMPTS, {"job_id": job_id, "claim": claim_id}).scalar() or 0)


_ATTEMPTS = text("SELECT attempts FROM jobs WHERE job_id = :job_id AND claim = :claim")


def end(
    tx: Connection,
    job_id: UUID,
    claim_id: UUID,
    status: Literal["failed", "cancelled"],
    message: str,
    error: str | None = None,
) -> None:
    """End a job that is ours before its work is done.

    Args:
        message: A line for its log.
        error: The error's type or a fixed phrase; never its message.
    """
    values = {"job_id": job_id, "claim": claim_id, "status": status, "error": error}
    tx.execute(_END, values | _lines([message]))


_END = text(f"""
UPDATE jobs
SET status = :status, error = :error, finished_at = now(), claim = NULL, claimed_until = NULL, log = {_LOGGED}
WHERE job_id = :job_id AND claim = :claim
""")  # noqa: S608 - put together of constants


def want_cancel(tx: Connection, tenant_id: UUID, job_id: UUID) -> bool:
    """Ask that a job be cancelled, at once where it waits. False where it has ended or there is none."""
    return tx.execute(_WANT_CANCEL, {"tenant_id": tenant_id, "job_id": job_id}).rowcount == 1


_WANT_CANCEL = text("""
UPDATE jobs SET cancel_wanted = true, claimed_until = CASE WHEN claim IS NULL THEN now() ELSE claimed_until END
WHERE tenant_id = :tenant_id AND job_id = :job_id AND status IN ('queued', 'running')
""")

_LISTED = (
    "job_id, kind, status, parameters, total, done, counts, error, created_at, started_at, finished_at, cancel_wanted"
)


def get(tx: Connection, tenant_id: UUID, job_id: UUID) -> Listed | None:
    """A job of a tenant, with its log."""
    row = tx.execute(_GET, {"tenant_id": tenant_id, "job_id": job_id}).one_or_none()
    return None if row is None else Listed(*row)


_GET = text(f"SELECT {_LISTED}, log FROM jobs WHERE tenant_id = :tenant_id AND job_id = :job_id")  # noqa: S608 - put together of constants


def page(
    tx: Connection,
    tenant_id: UUID,
    *,
    status: str | None,
    kind: str | None,
    older_than: tuple[datetime, UUID] | None,
    limit: int,
) -> list[Listed]:
    """A tenant's jobs from the newest on, without their logs.

    Args:
        older_than: The last of the page before: when it was made, and its id.
    """
    moment, job_id = older_than or (None, None)
    values = {
        "tenant_id": tenant_id,
        "status": status,
        "kind": kind,
        "moment": moment,
        "job_id": job_id,
        "limit": limit,
    }
    return [Listed(*row) for row in tx.execute(_PAGE, values)]


_PAGE = text(f"""
SELECT {_LISTED} FROM jobs
WHERE tenant_id = :tenant_id
  AND (CAST(:status AS text) IS NULL OR status = CAST(:status AS text))
  AND (CAST(:kind AS text) IS NULL OR kind = CAST(:kind AS text))
  AND (CAST(:moment AS timestamptz) IS NULL OR (
    created_at <= CAST(:moment AS timestamptz)
    AND (created_at < CAST(:moment AS timestamptz) OR job_id > CAST(:job_id AS uuid))))
ORDER BY created_at DESC, job_id LIMIT :limit
""")  # noqa: S608 - put together of constants


def unfinished(tx: Connection, kinds: Sequence[str], tenant_id: UUID | None = None) -> dict[bool, tuple[int, float]]:
    """Jobs that wait or go on, of a tenant or of all, and the seconds since the oldest was made, or might begin.

    Those that may not begin yet, such as erasures in their grace, aren't counted.

    Args:
        kinds: Some kinds of jobs: the answer has these by True, and all others by False.
    """
    found = {row.among: (row.jobs, row.age) for row in tx.execute(_UNFINISHED, {"kinds": list(kinds), "of": tenant_id})}
    return {among: found.get(among, (0, 0.0)) for among in (True, False)}


_UNFINISHED = text("""
SELECT kind = ANY (CAST(:kinds AS text[])) AS among, count(*) AS jobs,
  CAST(greatest(extract(epoch FROM now() - min(coalesce(not_before, created_at))), 0) AS double precision) AS age
FROM jobs
WHERE status IN ('queued', 'running') AND (not_before IS NULL OR not_before <= now())
  AND (CAST(:of AS uuid) IS NULL OR tenant_id = CAST(:of AS uuid))
GROUP BY among
""")


def purge(tx: Connection, tenant_id: UUID, before: datetime, limit: int) -> int:
    """Delete jobs that ended before this moment. Returns how many; call again until fewer than the limit."""
    return tx.execute(_PURGE, {"tenant_id": tenant_id, "before": before, "limit": limit}).rowcount


_PURGE = text("""
DELETE FROM jobs WHERE job_id IN (
  SELECT job_id FROM jobs
  WHERE tenant_id = :tenant_id AND finished_at < :before LIMIT :limit
)
""")


def _held(row: Row[tuple[object, ...]]) -> Held:
    job = Job(row.job_id, row.tenant_id, row.kind, row.parameters, row.state, row.total, row.done)
    return Held(job, row.attempts, row.cancel_wanted, row.age_seconds, row.run_seconds)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _lines(notes: Sequence[str]) -> dict[str, object]:
    return {"notes": _json(notes[-LOG_LINES:]), "lines": LOG_LINES}
