"""Store erasure requests and their progress, and find the memories in their scope.

Every transaction that stores, moves or changes memories takes the shared lock before it reads erasures or tombstones,
and holds the lock until its commit. Hiding memories and setting the watermark (`cut`) take the exclusive lock. This
prevents concurrent writes for a subject from escaping its erasure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

import msgspec
from sqlalchemy import Connection, Row, text

from app.domain.ingest.ids import last_seq
from app.domain.ingest.json_input import precompile
from app.domain.ingest.quarantine import Terms
from app.domain.jobs import ERASE
from app.domain.privacy.erasure import Status, scope_as_json, scope_from_json
from app.domain.privacy.late_arrivals import ArrivalErasures
from app.domain.privacy.legal_deadlines import Law
from app.domain.privacy.legal_hold import Scope
from app.store.core.binary_arrays import Uuids, driver_connection, fetch_column
from app.store.core.paging import Latest, Page, Place
from app.store.jobs import jobs
from app.store.privacy.holds import HOLDS, scope_sql

COLUMNS: Final = """erasure_id, kind, status, scope, reason, requested_at, requested_by, due_at, erase_after, hidden,
  cut, plan, executed, started_at, finished_at, verified_at, cancelled_at, report, rewrite_by, rewritten_at, batch_id,
  controller, case_reference, legal_basis, aliases, texts_redacted, arrived_at, whole_tenant"""

_QUARANTINES: Final = precompile(tuple[Terms, ...])


@precompile
@dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure request with its progress.

    Attributes:
        kind: The law under which it was requested.
        scope: The conditions that select its memories; empty once the erasure is finished or cancelled.
        requested_by: Id of the caller's API key.
        due_at: The legal deadline; None if there is none.
        erase_after: End of the grace period.
        hidden: Number of memories hidden at the time of the request.
        cut: The watermark: id of the last stream entry that the erasure covers; None until the erasure runs.
        plan: The work planned for each step, written before any data is erased.
        executed: The finished steps with their results.
        report: The report for the requester; None until the erasure is first verified or held.
        rewrite_by: Deadline for rewriting the affected segments; None if none is affected.
        rewritten_at: Time at which the last affected segment was rewritten.
        batch_id: The running batch that carries out this deletion of one memory; for a batch, its own id.
        controller: Name and address of the company that answers the request; retained for the report, as are
            `case_reference` and `legal_basis`.
        legal_basis: `a` to `f` for a point of GDPR Art. 17(1), or a text by the operator; None if not given.
        aliases: Other names of the person, by which texts of operators are redacted; None once the erasure is finished.
        texts_redacted: Number of texts of operators that contained a name of the person.
        arrived_at: Time of receipt of the request; None for deletions, and in rows of earlier versions.
        whole_tenant: True if it deletes the tenant, which then refuses requests; the scope then selects every memory.
    """

    erasure_id: UUID
    kind: Law
    status: Status
    scope: Scope
    reason: str | None
    requested_at: datetime
    requested_by: str
    due_at: datetime | None
    erase_after: datetime
    hidden: int = 0
    cut: str | None = None
    plan: list[dict[str, Any]] | None = None
    executed: list[dict[str, Any]] = field(default_factory=list)
    started_at: datetime | None = None
    finished_at: datetime | None = None
    verified_at: datetime | None = None
    cancelled_at: datetime | None = None
    report: dict[str, Any] | None = None
    rewrite_by: datetime | None = None
    rewritten_at: datetime | None = None
    batch_id: UUID | None = None
    controller: str | None = None
    case_reference: str | None = None
    legal_basis: str | None = None
    aliases: list[str] | None = None
    texts_redacted: int = 0
    arrived_at: datetime | None = None
    whole_tenant: bool = False

    @property
    def is_batch(self) -> bool:
        """True for an erasure that combines deletions of single memories; `page` omits it."""
        return self.batch_id == self.erasure_id


class Matching(NamedTuple):
    """Numbers of memories in a scope: visible, visible under a legal hold, hidden, and hidden under a legal hold."""

    memories: int
    held: int
    hidden: int
    hidden_held: int


def lock_shared(tx: Connection, tenant_id: UUID) -> None:
    """Take the tenant's erasure lock in shared mode until the transaction ends.

    While the lock is held, no erasure can hide memories or set its watermark. Lock order: only the lock of legal holds
    may be taken before this lock.
    """
    tx.execute(_SHARE, {"name": f"ebbing erasures {tenant_id}"})


_SHARE: Final = text("SELECT pg_advisory_xact_lock_shared(hashtextextended(:name, 0))")
_LOCK: Final = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))")


def lock_exclusive(tx: Connection, tenant_id: UUID) -> None:
    """Take the tenant's erasure lock exclusively: wait for current writers and block new ones."""
    tx.execute(_LOCK, {"name": f"ebbing erasures {tenant_id}"})


def add(tx: Connection, tenant_id: UUID, new: Erasure) -> None:
    """Insert an erasure."""
    values = {name: getattr(new, name) for name in new.__slots__} | {"scope": scope_as_json(new.scope).decode()}
    tx.execute(_ADD, {"tenant": tenant_id} | values)


_ADD: Final = text("""
INSERT INTO erasures (tenant_id, erasure_id, kind, status, scope, reason, requested_at, requested_by, due_at,
  erase_after, cut, started_at, batch_id, controller, case_reference, legal_basis, arrived_at, whole_tenant)
VALUES (:tenant, :erasure_id, :kind, :status, CAST(:scope AS jsonb), :reason, :requested_at, :requested_by, :due_at,
  :erase_after, :cut, :started_at, :batch_id, :controller, :case_reference, :legal_basis, :arrived_at, :whole_tenant)
""")


def get(tx: Connection, tenant_id: UUID, erasure_id: UUID, *, locked: bool = False) -> Erasure | None:
    """Return an erasure by its id, optionally with its row locked, or None if it doesn't exist."""
    statement = _GET_LOCKED if locked else _GET
    row = tx.execute(statement, {"tenant": tenant_id, "erasure_id": erasure_id}).one_or_none()
    return None if row is None else as_erasure(row)


_GET: Final = text(f"SELECT {COLUMNS} FROM erasures WHERE tenant_id = :tenant AND erasure_id = :erasure_id")  # noqa: S608
_GET_LOCKED: Final = text(f"{_GET.text} FOR UPDATE")


def page(tx: Connection, tenant_id: UUID, status: str | None, older_than: Place | None, limit: int) -> Page[Erasure]:
    """Return a page of erasures, latest request first."""
    return _PAGES.read(tx, as_erasure, older_than, limit, tenant=tenant_id, status=status)


_PAGES: Final = Latest(f"""
SELECT {COLUMNS} FROM erasures
WHERE tenant_id = :tenant AND batch_id IS DISTINCT FROM erasure_id
  AND (CAST(:status AS text) IS NULL OR status = :status)
ORDER BY requested_at DESC, erasure_id DESC""")  # noqa: S608 - constants only


def queue_job(tx: Connection, tenant_id: UUID, erasure_id: UUID, not_before: datetime | None = None) -> None:
    """Create the job that executes an erasure, or continues it."""
    jobs.add(tx, uuid4(), tenant_id, ERASE, {"erasure_id": str(erasure_id)}, lone=False, not_before=not_before)


def filter_held(tx: Connection, tenant_id: UUID, erasure_ids: Sequence[UUID]) -> list[UUID]:
    """Return those of these erasures that are held and have no unfinished job."""
    if not erasure_ids:
        return []
    return list(tx.execute(_HELD, {"tenant": tenant_id, "erasure_ids": list(erasure_ids)}).scalars())


def open_scopes(tx: Connection, tenant_id: UUID) -> list[Erasure]:
    """Return the unfinished erasures, oldest request first."""
    return [as_erasure(row) for row in tx.execute(_OPEN, {"tenant": tenant_id})]


def adopt(tx: Connection, tenant_id: UUID, erasure_id: UUID, limit: int) -> tuple[list[UUID], datetime | None]:
    """Assign to this erasure up to `limit` memories that were deleted outside of any erasure.

    Returns:
        The memories' ids, and the time of the latest deletion (None if there is none).
    """
    values = {"tenant": tenant_id, "erasure_id": erasure_id, "limit": limit}
    row = tx.execute(_ADOPT, values).one()
    return list(row.ids), row.last


_ADOPT: Final = text("""
WITH adopted AS MATERIALIZED (
  SELECT memory_id, deleted_at FROM memories AS memory
  WHERE tenant_id = :tenant AND deleted_at IS NOT NULL AND memory_id NOT IN (
    SELECT memory_id FROM hidden_memories WHERE tenant_id = :tenant)
  ORDER BY memory_id LIMIT :limit
), noted AS (
  INSERT INTO hidden_memories (tenant_id, memory_id, erasure_id, tier)
  SELECT :tenant, memory_id, :erasure_id, 'active' FROM adopted
)
SELECT coalesce(array_agg(memory_id ORDER BY memory_id), '{}') AS ids, max(deleted_at) AS last FROM adopted
""")


def due(tx: Connection, tenant_id: UUID, as_of: datetime, failed: Sequence[UUID] = ()) -> UUID | None:
    """Return the due erasure whose grace period ended first, or None if no erasure is due.

    Erasures with an unfinished job, and deletions in a running batch, aren't due. An erasure that awaits
    the release of a legal hold isn't due either: the release creates a job for it.

    Args:
        failed: Erasures to skip.
    """
    erasure_id: UUID | None = tx.execute(_DUE, {"tenant": tenant_id, "as_of": as_of, "failed": list(failed)}).scalar()
    return erasure_id


WITHOUT_JOB: Final = """NOT EXISTS (
    SELECT FROM jobs
    WHERE jobs.tenant_id = :tenant AND status IN ('queued', 'running') AND kind = 'erase'
      AND parameters->>'erasure_id' = CAST(erasures.erasure_id AS text))"""
_HELD: Final = text(f"""
SELECT erasure_id FROM erasures
WHERE tenant_id = :tenant AND erasure_id = ANY (:erasure_ids) AND status = 'held' AND {WITHOUT_JOB}
ORDER BY erasure_id
""")  # noqa: S608 - constants only
_DUE: Final = text(f"""
SELECT erasure_id FROM erasures
WHERE tenant_id = :tenant AND status IN ('grace', 'running') AND erasure_id <> ALL (CAST(:failed AS uuid[]))
  AND erase_after <= :as_of AND {WITHOUT_JOB} AND NOT EXISTS (
    SELECT FROM erasures AS batch
    WHERE batch.tenant_id = :tenant AND batch.erasure_id = erasures.batch_id
      AND batch.erasure_id <> erasures.erasure_id AND batch.status = 'running')
ORDER BY erase_after, erasure_id LIMIT 1
""")  # noqa: S608 - constants only


_OPEN: Final = text(f"""
SELECT {COLUMNS} FROM erasures WHERE tenant_id = :tenant AND status IN ('grace', 'running', 'held')
ORDER BY requested_at, erasure_id
""")  # noqa: S608 - constants only


def coming(tx: Connection, tenant_id: UUID) -> ArrivalErasures:
    """Return open erasures and quarantines, to check arriving data; the caller holds the shared lock.

    Scopes that list memory ids are omitted, because they can't match arriving data.
    """
    rows = tx.execute(_COMING, {"tenant": tenant_id}).all()
    quarantines = msgspec.convert(rows[0].quarantines or (), _QUARANTINES)
    erasures = [row for row in rows if row.erasure_id is not None]
    scopes = {row.erasure_id: scope_from_json(row.scope) for row in erasures}
    cuts = {row.erasure_id: row.cut for row in erasures if row.cut is not None}
    return ArrivalErasures(scopes, cuts, rows[0].last_cut_ms, quarantines)


_COMING: Final = text("""
SELECT erasure_id, scope, cut, last_cut_ms, (
    SELECT jsonb_agg(jsonb_build_object('key_id', key_id, 'source', source, 'after', after, 'before', before))
    FROM quarantines WHERE tenant_id = :tenant AND status IN ('placing', 'placed')) AS quarantines
FROM (SELECT coalesce(max(cut_ms), 0) AS last_cut_ms FROM tombstones WHERE tenant_id = :tenant) AS cuts
LEFT JOIN erasures ON tenant_id = :tenant AND status IN ('grace', 'running', 'held') AND NOT scope ? 'memory_ids'
ORDER BY requested_at, erasure_id
""")


def set_fields(tx: Connection, tenant_id: UUID, erasure_id: UUID, **fields: object) -> None:
    """Update columns of an erasure; the caller has locked its row."""
    assignments = ", ".join(f"{name} = {_AS.get(name, ':' + name)}" for name in fields)
    values = {
        name: msgspec.json.encode(value).decode() if name in _AS and value is not None else value
        for name, value in fields.items()
    }
    statement = text(f"UPDATE erasures SET {assignments} WHERE tenant_id = :tenant AND erasure_id = :erasure_id")  # noqa: S608 - names from code
    tx.execute(statement, {"tenant": tenant_id, "erasure_id": erasure_id} | values)


def finish(
    tx: Connection, tenant_id: UUID, reports: Mapping[UUID, dict[str, Any]], now: datetime, rewrite_by: datetime | None
) -> None:
    """Mark erasures as verified and store their reports; the caller has locked their rows.

    Args:
        rewrite_by: Deadline for rewriting the affected segments; None if none is affected.
    """
    encoded = msgspec.json.encode(reports).decode()
    values = {"tenant": tenant_id, "ids": Uuids(list(reports)), "given": encoded, "now": now, "rewrite_by": rewrite_by}
    driver_connection(tx).execute(_FINISH, values)


_FINISH: Final = """
UPDATE erasures SET status = 'verified', finished_at = %(now)s, verified_at = %(now)s, scope = '{}', reason = NULL,
  aliases = NULL, report = given.value, residue = 0, batch_id = NULL, rewritten_at = NULL,
  rewrite_by = CASE WHEN jsonb_path_exists(plan, '$[*].segments[*]') THEN %(rewrite_by)s::timestamptz END
FROM jsonb_each(CAST(%(given)s AS jsonb)) AS given
WHERE tenant_id = %(tenant)s AND erasure_id = ANY (%(ids)s) AND erasure_id = CAST(given.key AS uuid)
"""


def clear_aliases(tx: Connection, tenant_id: UUID) -> None:
    """Delete the aliases of finished erasures; workers of the previous version leave them when finishing."""
    tx.execute(_CLEAR_ALIASES, {"tenant": tenant_id})


_CLEAR_ALIASES: Final = text("""
UPDATE erasures SET aliases = NULL
WHERE tenant_id = :tenant AND aliases IS NOT NULL AND status IN ('verified', 'cancelled')
""")
_AS: Final = {name: f"CAST(:{name} AS jsonb)" for name in ("scope", "plan", "executed", "report")}


# --- Memories in an erasure's scope ---


def count(tx: Connection, tenant_id: UUID, scope: Scope) -> Matching:
    """Count the memories in a scope; memories that are already hidden or deleted are counted separately."""
    statement = text(f"""
SELECT count(*) FILTER (WHERE deleted_at IS NULL), count(*) FILTER (WHERE deleted_at IS NULL AND is_held),
  count(*) FILTER (WHERE deleted_at IS NOT NULL), count(*) FILTER (WHERE deleted_at IS NOT NULL AND is_held)
FROM memories AS memory CROSS JOIN LATERAL (SELECT EXISTS (
  SELECT FROM holds AS hold WHERE hold.tenant_id = :tenant AND {HOLDS}) AS is_held) AS found
WHERE tenant_id = :tenant AND {scope_sql(scope)}
""")  # noqa: S608 - constants only
    return Matching(*tx.execute(statement, {"tenant": tenant_id} | scope.conditions()).one())


def find_hiding(tx: Connection, tenant_id: UUID, memory_id: UUID) -> Erasure | None:
    """Return the open erasure that hides a memory, or None."""
    row = tx.execute(_HIDING, {"tenant": tenant_id, "memory_id": memory_id}).one_or_none()
    return None if row is None else as_erasure(row)


_HIDING: Final = text(f"""
SELECT {COLUMNS} FROM erasures
WHERE tenant_id = :tenant AND erasure_id = (
  SELECT erasure_id FROM hidden_memories WHERE tenant_id = :tenant AND memory_id = :memory_id)
""")  # noqa: S608 - constants only


def ids(tx: Connection, tenant_id: UUID, erasure: Erasure, *, held: bool = False) -> list[UUID]:
    """Return the memories in an erasure's scope up to its watermark, including hidden and deleted ones, in id order.

    Args:
        erasure: An erasure with a watermark.
        held: Return only memories under a legal hold; False returns only memories without one.
    """
    statement = text(f"""
SELECT memory_id FROM memories AS memory
WHERE tenant_id = :tenant AND {scope_sql(erasure.scope)} AND seq <= :last_seq AND :held = EXISTS (
  SELECT FROM holds AS hold WHERE hold.tenant_id = :tenant AND {HOLDS})
ORDER BY memory_id
""")  # noqa: S608 - constants only
    values = {"tenant": tenant_id, "held": held, "last_seq": last_seq(erasure.cut or "0-0")}
    return list(tx.execute(statement, values | erasure.scope.conditions()).scalars())


def lock_rows(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Lock the rows of memories, including hidden and deleted ones, in id order. Return the ids that exist."""
    return fetch_column(tx, _LOCK_ROWS, {"tenant": tenant_id, "ids": Uuids(memory_ids)})


_LOCK_ROWS: Final = """
SELECT memory_id FROM memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)
ORDER BY memory_id FOR UPDATE
"""


def as_erasure(row: Row[Any]) -> Erasure:
    """Build an erasure from a row with `COLUMNS`."""
    fields = {name: getattr(row, name) for name in Erasure.__slots__}
    return Erasure(**fields | {"scope": scope_from_json(row.scope)})
