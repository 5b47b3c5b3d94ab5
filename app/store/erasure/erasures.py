"""Erasures: what was asked for, hiding what it is of, and how far it is.

What stores, moves or changes memories takes the shared lock before it reads what is hidden or erased, and keeps it
until it commits; hiding and the cut take the exclusive one. So nothing of somebody comes in beside them unseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from sqlalchemy import Connection, Row, text

from app.domain.ingest.decoding import prepared
from app.domain.ingest.ids import last_seq
from app.domain.privacy.arriving import Coming
from app.domain.privacy.clocks import Law
from app.domain.privacy.erasure import Status, scope_as_json, scope_from_json
from app.domain.privacy.hold import Meant
from app.store.core.packed import Uuids, driver
from app.store.memories.tenant_counts import Counts
from app.store.privacy.holds import HOLDS, conditions

COLUMNS: Final = """erasure_id, kind, status, scope, reason, requested_at, requested_by, due_at, erase_after, hidden,
  cut, plan, executed, started_at, finished_at, verified_at, cancelled_at, report, rewrite_by, rewritten_at"""


@prepared
@dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure as it stands.

    Attributes:
        kind: What it was asked under.
        scope: What it is of; without conditions once it is over.
        requested_by: Id of the caller's key.
        due_at: By when the law wants it done; None where none does.
        erase_after: When its grace is over.
        hidden: How many memories it has hidden at once.
        cut: The last place in the stream that it covers; None until it runs.
        plan: What each step found to do, written before anything was erased.
        executed: The steps that are done, with what they did.
        report: What is told of it; None until it is verified.
        rewrite_by: By when the segments that it has touched are rewritten; None where it has touched none.
        rewritten_at: When they were.
    """

    erasure_id: UUID
    kind: Law
    status: Status
    scope: Meant
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


class Matching(NamedTuple):
    """How many memories a scope is of; `held` of them are under a legal hold."""

    memories: int
    held: int


class Hidden(NamedTuple):
    """What was hidden, or came back: the memories in id order, and what they come to in the tenant's numbers."""

    ids: list[UUID]
    counts: Counts


def share(tx: Connection, tenant_id: UUID) -> None:
    """Let no erasure hide or cut until the transaction ends. Before any lock but the holds'."""
    tx.execute(_SHARE, {"name": f"ebbing erasures {tenant_id}"})


_SHARE: Final = text("SELECT pg_advisory_xact_lock_shared(hashtextextended(:name, 0))")
_LOCK: Final = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))")


def lock(tx: Connection, tenant_id: UUID) -> None:
    """Wait until those that are about to write are done, and let nobody else begin."""
    tx.execute(_LOCK, {"name": f"ebbing erasures {tenant_id}"})


def add(tx: Connection, tenant_id: UUID, new: Erasure) -> None:
    """Enter an erasure in its grace."""
    values = {name: getattr(new, name) for name in new.__slots__} | {"scope": scope_as_json(new.scope).decode()}
    tx.execute(_ADD, {"tenant": tenant_id} | values)


_ADD: Final = text("""
INSERT INTO erasures (tenant_id, erasure_id, kind, status, scope, reason, requested_at, requested_by, due_at,
  erase_after)
VALUES (:tenant, :erasure_id, :kind, :status, CAST(:scope AS jsonb), :reason, :requested_at, :requested_by, :due_at,
  :erase_after)
""")


def get(tx: Connection, tenant_id: UUID, erasure_id: UUID, *, locked: bool = False) -> Erasure | None:
    """An erasure by its id; None where there is none."""
    statement = _GET_LOCKED if locked else _GET
    row = tx.execute(statement, {"tenant": tenant_id, "erasure_id": erasure_id}).one_or_none()
    return None if row is None else as_erasure(row)


_GET: Final = text(f"SELECT {COLUMNS} FROM erasures WHERE tenant_id = :tenant AND erasure_id = :erasure_id")  # noqa: S608
_GET_LOCKED: Final = text(f"{_GET.text} FOR UPDATE")


def page(
    tx: Connection, tenant_id: UUID, status: str | None, older_than: tuple[datetime, UUID] | None, limit: int
) -> list[Erasure]:
    """Erasures, those requested last first, after the one given by when it was requested and its id."""
    requested_at, erasure_id = older_than or (None, None)
    values = {
        "tenant": tenant_id,
        "status": status,
        "requested_at": requested_at,
        "erasure_id": erasure_id,
        "limit": limit,
    }
    return [as_erasure(row) for row in tx.execute(_PAGE, values)]


_PAGE: Final = text(f"""
SELECT {COLUMNS} FROM erasures
WHERE tenant_id = :tenant AND (CAST(:status AS text) IS NULL OR status = :status)
  AND (CAST(:requested_at AS timestamptz) IS NULL OR
    (requested_at, erasure_id) < (:requested_at, CAST(:erasure_id AS uuid)))
ORDER BY requested_at DESC, erasure_id DESC LIMIT :limit
""")  # noqa: S608 - constants alone


def open_scopes(tx: Connection, tenant_id: UUID) -> list[Erasure]:
    """The erasures that aren't over, the first requested first."""
    return [as_erasure(row) for row in tx.execute(_OPEN, {"tenant": tenant_id})]


def adopt(tx: Connection, tenant_id: UUID, erasure_id: UUID, limit: int) -> tuple[list[UUID], datetime | None]:
    """Let an erasure have memories that were deleted without one. Returns them, and when the last was deleted."""
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
    """The erasure whose grace was over first by a moment, but those that a job is to carry out, and those that failed.

    One that waits for a hold isn't due: the hold's release makes a job of it.
    """
    found: UUID | None = tx.execute(_DUE, {"tenant": tenant_id, "as_of": as_of, "failed": list(failed)}).scalar()
    return found


_DUE: Final = text("""
SELECT erasure_id FROM erasures
WHERE tenant_id = :tenant AND status IN ('grace', 'running') AND erasure_id <> ALL (CAST(:failed AS uuid[]))
  AND erase_after <= :as_of AND NOT EXISTS (
    SELECT FROM jobs
    WHERE jobs.tenant_id = :tenant AND status IN ('queued', 'running') AND kind = 'erase'
      AND parameters->>'erasure_id' = CAST(erasures.erasure_id AS text))
ORDER BY erase_after, erasure_id LIMIT 1
""")


_OPEN: Final = text(f"""
SELECT {COLUMNS} FROM erasures WHERE tenant_id = :tenant AND status IN ('grace', 'running', 'held')
ORDER BY requested_at, erasure_id
""")  # noqa: S608 - constants alone


def coming(tx: Connection, tenant_id: UUID) -> Coming:
    """What to look out for among arrivals. The transaction shares the lock."""
    rows = tx.execute(_COMING, {"tenant": tenant_id}).all()
    there = [row for row in rows if row.erasure_id is not None]
    scopes = {row.erasure_id: scope_from_json(row.scope) for row in there}
    return Coming(scopes, {row.erasure_id: row.cut for row in there if row.cut is not None}, rows[0].last_cut_ms)


_COMING: Final = text("""
SELECT erasure_id, scope, cut, last_cut_ms
FROM (SELECT coalesce(max(cut_ms), 0) AS last_cut_ms FROM tombstones WHERE tenant_id = :tenant) AS cuts
LEFT JOIN erasures ON tenant_id = :tenant AND status IN ('grace', 'running', 'held') AND NOT scope ? 'memory_ids'
ORDER BY requested_at, erasure_id
""")


def set_fields(tx: Connection, tenant_id: UUID, erasure_id: UUID, **fields: object) -> None:
    """Enter how far an erasure is; its row is locked."""
    given = ", ".join(f"{name} = {_AS.get(name, ':' + name)}" for name in fields)
    values = {
        name: msgspec.json.encode(value).decode() if name in _AS and value is not None else value
        for name, value in fields.items()
    }
    statement = text(f"UPDATE erasures SET {given} WHERE tenant_id = :tenant AND erasure_id = :erasure_id")  # noqa: S608 - names are ours
    tx.execute(statement, {"tenant": tenant_id, "erasure_id": erasure_id} | values)


_AS: Final = {name: f"CAST(:{name} AS jsonb)" for name in ("scope", "plan", "executed", "report")}


# --- What it is of ---


def count(tx: Connection, tenant_id: UUID, scope: Meant) -> Matching:
    """How many memories meet a scope, those that are hidden or were deleted included."""
    statement = text(f"""
SELECT count(*), count(*) FILTER (WHERE EXISTS (
  SELECT FROM holds AS hold WHERE hold.tenant_id = :tenant AND {HOLDS}))
FROM memories AS memory WHERE tenant_id = :tenant AND {conditions(scope)}
""")  # noqa: S608 - constants alone
    return Matching(*tx.execute(statement, {"tenant": tenant_id} | scope.given()).one())


def ids(tx: Connection, tenant_id: UUID, erasure: Erasure, *, held: bool = False) -> list[UUID]:
    """The memories that an erasure is of, hidden and deleted ones included, up to its cut; in id order.

    Args:
        tx: The tenant's transaction.
        tenant_id: The tenant.
        erasure: Which has a cut.
        held: Those alone that a legal hold is on; else those alone that none is.
    """
    statement = text(f"""
SELECT memory_id FROM memories AS memory
WHERE tenant_id = :tenant AND {conditions(erasure.scope)} AND seq <= :last_seq AND :held = EXISTS (
  SELECT FROM holds AS hold WHERE hold.tenant_id = :tenant AND {HOLDS})
ORDER BY memory_id
""")  # noqa: S608 - constants alone
    values = {"tenant": tenant_id, "held": held, "last_seq": last_seq(erasure.cut or "0-0")}
    return list(tx.execute(statement, values | erasure.scope.given()).scalars())


def lock_rows(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Lock the rows of memories, hidden and deleted ones too, in id order. Returns those that are still there."""
    found = driver(tx).execute(_LOCK_ROWS, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).fetchall()
    return [memory_id for (memory_id,) in found]


_LOCK_ROWS: Final = """
SELECT memory_id FROM memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)
ORDER BY memory_id FOR UPDATE
"""


_NUMBERS: Final = """
  coalesce(array_agg(memory_id ORDER BY memory_id), '{}') AS ids, count(*) FILTER (WHERE tier = 'active') AS active,
  count(*) FILTER (WHERE tier = 'archived') AS archived, count(*) FILTER (WHERE tier = 'cold') AS cold,
  CAST(coalesce(sum((
    SELECT octet_length(text) FROM memories AS said
    WHERE said.tenant_id = :tenant AND said.memory_id = {rows}.memory_id)), 0) AS bigint) AS text_bytes
"""


def hide(
    tx: Connection,
    tenant_id: UUID,
    erasure_id: UUID,
    scope: Meant,
    among: Sequence[UUID] | None = None,
    cut: str | None = None,
) -> Hidden:
    """Hide the memories that meet a scope: no read finds them any more. They keep all that they have.

    Locks their rows in `memories`, then their states, in id order.

    Args:
        tx: The tenant's transaction.
        tenant_id: The tenant.
        erasure_id: Which hides them.
        scope: What it is of.
        among: Of these memories alone; of all where left out.
        cut: Of those alone that came up to this place in the stream.

    Returns:
        Those that were hidden by this.
    """
    statement = text(f"""
WITH picked AS MATERIALIZED (
  SELECT memory_id FROM memories AS memory
  WHERE tenant_id = :tenant AND deleted_at IS NULL AND {conditions(scope)} {_AMONG if among is not None else ""}
    {"AND seq <= :last_seq" if cut is not None else ""}
  ORDER BY memory_id FOR UPDATE
), stood AS MATERIALIZED (
  SELECT memory_id, tier FROM memory_state
  WHERE tenant_id = :tenant AND memory_id = ANY (ARRAY(SELECT memory_id FROM picked)) AND tier <> 'deleted'
  ORDER BY memory_id FOR UPDATE
), noted AS (
  INSERT INTO hidden_memories (tenant_id, memory_id, erasure_id, tier)
  SELECT :tenant, memory_id, :erasure_id, tier FROM stood
  ON CONFLICT (tenant_id, memory_id) DO NOTHING
), hidden AS (
  UPDATE memories SET deleted_at = clock_timestamp()
  WHERE tenant_id = :tenant AND memory_id = ANY (ARRAY(SELECT memory_id FROM stood))
), retired AS (
  UPDATE memory_state SET tier = 'deleted', next_due_at = 'infinity'
  WHERE tenant_id = :tenant AND memory_id = ANY (ARRAY(SELECT memory_id FROM stood))
)
SELECT {_NUMBERS.replace("{rows}", "stood")} FROM stood
""")  # noqa: S608 - constants alone
    values: dict[str, Any] = {"tenant": tenant_id, "erasure_id": erasure_id, "among": list(among or ())}
    values |= scope.given() | ({} if cut is None else {"last_seq": last_seq(cut)})
    return _hidden(tx.execute(statement, values).one())


_AMONG: Final = "AND memory_id = ANY (CAST(:among AS uuid[]))"


def _hidden(row: Row[Any]) -> Hidden:
    return Hidden(list(row.ids), Counts(row.active, row.archived, row.cold, row.text_bytes))


def show_again(
    tx: Connection, tenant_id: UUID, erasure_id: UUID | None = None, among: Sequence[UUID] | None = None
) -> Hidden:
    """Let what an erasure has hidden, or these memories, be found again, each in the tier where it was.

    A memory whose external id another has by now comes back without it; of several that come back, the last has it.

    Returns:
        Those that came back; what search finds them by is the caller's to see to.
    """
    return _hidden(
        tx.execute(_SHOW_AGAIN, {"tenant": tenant_id, "erasure_id": erasure_id, "among": list(among or ())}).one()
    )


_SHOW_AGAIN: Final = text(f"""
WITH locked AS MATERIALIZED (
  SELECT memory_id FROM memories
  WHERE tenant_id = :tenant AND memory_id = ANY (ARRAY(
    SELECT memory_id FROM hidden_memories
    WHERE tenant_id = :tenant AND (erasure_id = :erasure_id OR memory_id = ANY (CAST(:among AS uuid[])))))
  ORDER BY memory_id FOR UPDATE
), back AS MATERIALIZED (
  DELETE FROM hidden_memories WHERE tenant_id = :tenant AND memory_id IN (SELECT memory_id FROM locked)
  RETURNING memory_id, tier
), shown AS (
  UPDATE memories AS memory SET deleted_at = NULL, external_id = CASE WHEN EXISTS (
      SELECT FROM memories AS other WHERE other.tenant_id = :tenant AND other.external_id = memory.external_id
        AND other.deleted_at IS NULL) OR EXISTS (
      SELECT FROM memories AS later WHERE later.tenant_id = :tenant AND later.external_id = memory.external_id
        AND later.memory_id = ANY (ARRAY(SELECT memory_id FROM back))
        AND (later.seq, later.memory_id) > (memory.seq, memory.memory_id)) THEN NULL ELSE external_id END
  WHERE tenant_id = :tenant AND memory_id = ANY (ARRAY(SELECT memory_id FROM back))
), stands AS (
  UPDATE memory_state AS state SET tier = back.tier, wanted_tier = back.tier, next_due_at = '-infinity'
  FROM back WHERE state.tenant_id = :tenant AND state.memory_id = back.memory_id
)
SELECT {_NUMBERS.replace("{rows}", "back")} FROM back
""")  # noqa: S608 - constants alone


def as_erasure(row: Row[Any]) -> Erasure:
    """An erasure of a row with `COLUMNS`."""
    fields = {name: getattr(row, name) for name in Erasure.__slots__}
    return Erasure(**fields | {"scope": scope_from_json(row.scope)})
