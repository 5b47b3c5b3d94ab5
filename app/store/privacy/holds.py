"""Store legal holds: place and release them, and find the holds on a memory.

Every transaction that removes, moves or changes memories takes the shared lock before it reads the holds, and holds the
lock until its commit; placing a hold takes the exclusive lock. Held memories are therefore safe once the request that
placed the hold has been answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from sqlalchemy import Connection, Row, text

from app.domain.privacy.legal_hold import HoldGround, Scope
from app.store.core.binary_arrays import Uuids, driver_connection
from app.store.core.paging import Latest, Page, Place
from app.store.memories.memories import CONTENT_CHANGES, NewMemory, as_json

HOLDS: Final = """hold.released_at IS NULL
      AND (hold.memory_ids IS NULL OR memory.memory_id = ANY (hold.memory_ids))
      AND (hold.subject IS NULL OR hold.subject = memory.subject)
      AND (hold.thread IS NULL OR hold.thread = memory.thread)
      AND (hold.tags IS NULL OR memory.tags @> hold.tags)
      AND (hold.categories IS NULL OR memory.categories && hold.categories)
      AND (hold.kinds IS NULL OR memory.kind = ANY (hold.kinds))
      AND (hold.after IS NULL OR coalesce(memory.occurred_at, memory.created_at) >= hold.after)
      AND (hold.before IS NULL OR coalesce(memory.occurred_at, memory.created_at) < hold.before)"""
"""SQL condition that a row `hold` covers a row `memory` of the same tenant."""

# The parts of the condition for a single hold. `scope_sql` combines only the needed parts, so that indexes are used.
_CONDITIONS: Final = {
    "memory_ids": "memory.memory_id = ANY (:memory_ids)",
    "subject": "memory.subject = :subject",
    "thread": "memory.thread = :thread",
    "tags": "memory.tags @> CAST(:tags AS text[])",
    "categories": "memory.categories && CAST(:categories AS text[])",
    "kinds": "memory.kind = ANY (:kinds)",
    "after": "coalesce(memory.occurred_at, memory.created_at) >= :after",
    "before": "coalesce(memory.occurred_at, memory.created_at) < :before",
}


@dataclass(frozen=True, slots=True)
class Hold:
    """A legal hold.

    Attributes:
        meant: The scope: conditions that select the held memories.
        placed_by: Id of the API key of the caller who placed the hold.
        released_by: Id of the API key of the caller who released it; None while the hold is in force.
        ground: Legal ground for retaining the memories; None if it wasn't given.
    """

    hold_id: UUID
    meant: Scope
    reason: str
    placed_at: datetime
    placed_by: str
    released_at: datetime | None
    released_by: str | None
    ground: HoldGround | None = None
    release_reason: str | None = None


class MemoryHold(NamedTuple):
    """A hold in force on a memory."""

    hold_id: UUID
    placed_at: datetime
    reason: str


class WaitingErasures(NamedTuple):
    """Number of erasures that the release of a hold continues, and of the memories that they then erase."""

    erasures: int
    memories: int


class HoldCounts(NamedTuple):
    """Number of memories that a hold covers; `hidden` counts deleted memories whose rows still exist."""

    memories: int
    hidden: int


def lock_shared(tx: Connection, tenant_id: UUID) -> None:
    """Take the tenant's hold lock in shared mode until the transaction ends, so that no hold can be placed.

    Lock order: before any other lock.
    """
    tx.execute(_SHARE, {"name": f"ebbing holds {tenant_id}"})


_SHARE: Final = text("SELECT pg_advisory_xact_lock_shared(hashtextextended(:name, 0))")
_LOCK: Final = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))")


def lock_exclusive(tx: Connection, tenant_id: UUID) -> None:
    """Take the tenant's hold lock exclusively: wait for transactions that change memories and block new ones."""
    tx.execute(_LOCK, {"name": f"ebbing holds {tenant_id}"})


def insert_hold(
    tx: Connection,
    tenant_id: UUID,
    hold_id: UUID,
    meant: Scope,
    reason: str,
    placed_by: str,
    *,
    ground: HoldGround | None = None,
) -> Hold:
    """Insert a hold; the caller holds the exclusive lock."""
    values = {name: getattr(meant, name) for name in meant.__slots__}
    row = {"tenant": tenant_id, "hold_id": hold_id, "reason": reason, "placed_by": placed_by, "ground": ground} | values
    return as_hold(tx.execute(_PLACE, row).one())


_COLUMNS: Final = """hold_id, memory_ids, subject, thread, tags, categories, kinds, after, before, reason, placed_at,
  placed_by, released_at, released_by, ground, release_reason"""
_PLACE: Final = text(f"""
INSERT INTO holds (tenant_id, hold_id, memory_ids, subject, thread, tags, categories, kinds, after, before, reason,
  placed_at, placed_by, ground)
VALUES (:tenant, :hold_id, CAST(:memory_ids AS uuid[]), :subject, :thread, CAST(:tags AS text[]),
  CAST(:categories AS text[]), CAST(:kinds AS text[]), :after, :before, :reason, clock_timestamp(), :placed_by, :ground)
RETURNING {_COLUMNS}
""")  # noqa: S608 - constants only


def get(tx: Connection, tenant_id: UUID, hold_id: UUID) -> Hold | None:
    """Return a hold by its id, or None if it doesn't exist."""
    row = tx.execute(_GET, {"tenant": tenant_id, "hold_id": hold_id}).one_or_none()
    return None if row is None else as_hold(row)


_GET: Final = text(f"SELECT {_COLUMNS} FROM holds WHERE tenant_id = :tenant AND hold_id = :hold_id")  # noqa: S608


def list_among(tx: Connection, tenant_id: UUID, hold_ids: Sequence[str]) -> list[Hold]:
    """Return those of these holds that exist, released ones included, in id order."""
    return [as_hold(row) for row in tx.execute(_AMONG, {"tenant": tenant_id, "ids": list(hold_ids)})]


_AMONG: Final = text(
    f"SELECT {_COLUMNS} FROM holds WHERE tenant_id = :tenant AND CAST(hold_id AS text) = ANY (:ids) ORDER BY hold_id"  # noqa: S608 - constants only
)


def list_holds(tx: Connection, tenant_id: UUID, older_than: Place | None, limit: int, *, released: bool) -> Page[Hold]:
    """Return a page of holds, latest first; `released` includes released holds."""
    return _PAGES.read(tx, as_hold, older_than, limit, tenant=tenant_id, released=released)


_PAGES: Final = Latest(f"""
SELECT {_COLUMNS} FROM holds WHERE tenant_id = :tenant AND (:released OR released_at IS NULL)
ORDER BY placed_at DESC, hold_id DESC""")  # noqa: S608 - constants only


def release_hold(tx: Connection, tenant_id: UUID, hold_id: UUID, released_by: str, reason: str | None = None) -> bool:
    """Release a hold. Return False if it doesn't exist or is already released."""
    values = {"tenant": tenant_id, "hold_id": hold_id, "released_by": released_by, "reason": reason}
    return tx.execute(_RELEASE, values).rowcount == 1


_RELEASE: Final = text("""
UPDATE holds SET released_at = clock_timestamp(), released_by = :released_by, release_reason = :reason
WHERE tenant_id = :tenant AND hold_id = :hold_id AND released_at IS NULL
""")


def count_covered(tx: Connection, tenant_id: UUID, meant: Scope) -> HoldCounts:
    """Count the memories that match a hold's conditions."""
    statement = text(f"""
SELECT count(*) FILTER (WHERE deleted_at IS NULL), count(*) FILTER (WHERE deleted_at IS NOT NULL)
FROM memories AS memory WHERE tenant_id = :tenant AND {scope_sql(meant)}
""")  # noqa: S608 - constants only
    return HoldCounts(*tx.execute(statement, {"tenant": tenant_id} | meant.conditions()).one())


def list_subjects(tx: Connection, tenant_id: UUID, meant: Scope, limit: int) -> list[str]:
    """Return the subjects of the memories that match a hold's conditions, the most frequent first."""
    statement = text(f"""
SELECT subject FROM memories AS memory WHERE tenant_id = :tenant AND subject IS NOT NULL AND {scope_sql(meant)}
GROUP BY subject ORDER BY count(*) DESC, subject LIMIT :limit
""")  # noqa: S608 - constants only
    return list(tx.execute(statement, {"tenant": tenant_id, "limit": limit} | meant.conditions()).scalars())


def count_waiting(tx: Connection, tenant_id: UUID, hold: Hold) -> WaitingErasures:
    """Count the held erasures with memories that no other hold covers, and these memories: a release erases them."""
    statement = text(f"""
SELECT count(DISTINCT waiting.erasure_id), count(*)
FROM erasures AS waiting
JOIN hidden_memories AS hidden ON hidden.tenant_id = :tenant AND hidden.erasure_id = waiting.erasure_id
JOIN memories AS memory ON memory.tenant_id = :tenant AND memory.memory_id = hidden.memory_id
WHERE waiting.tenant_id = :tenant AND waiting.status = 'held' AND {scope_sql(hold.meant)} AND NOT EXISTS (
  SELECT FROM holds AS hold WHERE hold.tenant_id = :tenant AND hold.hold_id <> :hold AND {HOLDS})
""")  # noqa: S608 - constants only
    values = {"tenant": tenant_id, "hold": hold.hold_id} | hold.meant.conditions()
    return WaitingErasures(*tx.execute(statement, values).one())


def make_due(tx: Connection, tenant_id: UUID, meant: Scope, after: UUID, limit: int) -> tuple[int, UUID | None]:
    """Make memories that match a hold's conditions due for the next sweep, one page in id order per call.

    The call locks the memories' rows in `memory_state` in id order.

    Args:
        after: Last id of the previous page.

    Returns:
        The number of memories in the page, and the page's last id, or None if there are no more.
    """
    statement = text(f"""
WITH picked AS MATERIALIZED (
  SELECT memory_id FROM memories AS memory
  WHERE tenant_id = :tenant AND deleted_at IS NULL AND memory_id > :later_than AND {scope_sql(meant)}
  ORDER BY memory_id LIMIT :limit
), locked AS MATERIALIZED (
  SELECT memory_id FROM memory_state
  WHERE tenant_id = :tenant AND memory_id = ANY (ARRAY(SELECT memory_id FROM picked)) AND tier <> 'deleted'
  ORDER BY memory_id FOR UPDATE
), due AS (
  UPDATE memory_state SET next_due_at = '-infinity'
  WHERE tenant_id = :tenant AND memory_id = ANY (ARRAY(SELECT memory_id FROM locked))
)
SELECT count(*) AS looked_at, (SELECT memory_id FROM picked ORDER BY memory_id DESC LIMIT 1) AS last FROM picked
""")  # noqa: S608 - constants only
    values = {"tenant": tenant_id, "later_than": after, "limit": limit} | meant.conditions()
    row = tx.execute(statement, values).one()
    return row.looked_at, row.last if row.looked_at == limit else None


def list_by_memory(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, list[MemoryHold]]:
    """Return the holds in force on each of these memories, in order of placement; memories without any are omitted."""
    holds: dict[UUID, list[MemoryHold]] = {}
    for memory_id, *columns in (
        driver_connection(tx).execute(_ON, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).fetchall()
    ):
        holds.setdefault(memory_id, []).append(MemoryHold(*columns))
    return holds


_ON: Final = f"""
SELECT memory.memory_id, hold.hold_id, hold.placed_at, hold.reason
FROM (
  SELECT * FROM memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) OFFSET 0
) AS memory JOIN holds AS hold ON hold.tenant_id = %(tenant)s AND {HOLDS}
ORDER BY hold.placed_at, hold.hold_id
"""  # noqa: S608 - constants only


def remove_external_ids(
    tx: Connection, tenant_id: UUID, held: Sequence[UUID], given: Sequence[NewMemory]
) -> list[UUID]:
    """Remove the external ids of held memories whose content the input would change.

    The input is then stored as new memories, and the held memories remain unchanged.

    Args:
        tx: The tenant's transaction, which has locked the memories.
        held: Memories under a hold.
        given: The input; each external id occurs at most once.

    Returns:
        The memories that lost their external id.
    """
    rows = msgspec.json.encode([as_json(row) for row in given if row.given.external_id is not None]).decode()
    return list(tx.execute(_UNNAME, {"tenant": tenant_id, "ids": list(held), "rows": rows}).scalars())


_UNNAME: Final = text(f"""
UPDATE memories AS known SET external_id = NULL
FROM jsonb_populate_recordset(CAST(NULL AS memories), CAST(:rows AS jsonb)) AS given
WHERE known.tenant_id = :tenant AND known.memory_id = ANY (CAST(:ids AS uuid[]))
  AND known.external_id = given.external_id AND {CONTENT_CHANGES}
RETURNING known.memory_id
""")  # noqa: S608 - constants only


def scope_sql(meant: Scope) -> str:
    """Return SQL conditions on a row `memory`; their parameters are `meant.conditions()`."""
    return " AND ".join(_CONDITIONS[name] for name in meant.conditions())


def as_hold(row: Row[Any]) -> Hold:
    """Build a hold from a row of `holds`."""
    return Hold(
        row.hold_id,
        Scope(*(getattr(row, name) for name in Scope.__slots__)),
        row.reason,
        row.placed_at,
        row.placed_by,
        row.released_at,
        row.released_by,
        row.ground,
        row.release_reason,
    )
