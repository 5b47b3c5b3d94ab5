"""Store supersessions: statements that a newer memory replaces an older one.

Deleting or hiding a memory removes its supersessions, so the memories that a supersession refers to exist.

All changes within one tenant are serialised by an advisory lock until the transaction ends. Lock order: after the word
index, before the tenant's counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.consolidation.supersession import (
    PairOutcome,
    Reason,
    Source,
    Status,
    SupersessionEnd,
    SupersessionPair,
)
from app.store.core.binary_arrays import Uuids, driver_connection
from app.store.core.paging import Latest, Page, Place, build_one


@dataclass(frozen=True, slots=True)
class StoredSupersession:
    """A stored supersession with the texts of both ends.

    Attributes:
        memory_id: The newer memory.
        superseded_id: The older memory; None while the status is `waiting`.
        named: The caller's name for the older memory, while the status is `waiting`.
        reason: The reason for the status `rejected`.
        since: When the older memory ceased to be current.
        text: The newer memory's text.
        superseded_text: The older memory's text.
    """

    supersession_id: UUID
    memory_id: UUID
    superseded_id: UUID | None
    named: str | None
    status: Status
    source: Source
    reason: str | None
    since: datetime | None
    made_at: datetime
    decided_at: datetime | None
    decided_by: str | None
    text: str
    superseded_text: str | None


@dataclass(frozen=True, slots=True)
class MemorySupersessions:
    """The direct supersessions of a memory in both directions, and the time at which it ceased to be current."""

    supersedes: list[UUID] = field(default_factory=list)
    superseded_by: list[UUID] = field(default_factory=list)
    valid_to: datetime | None = None


class SupersessionStatement(NamedTuple):
    """A supersession as it was stated, with its current status."""

    memory_id: UUID
    superseded_id: UUID | None
    named: str | None
    status: Status
    source: Source
    reason: Reason | None
    made_at: datetime


class WaitingName(NamedTuple):
    """The unresolved name of a memory that `memory_id` supersedes, and the time of the statement."""

    memory_id: UUID
    named: str
    made_at: datetime


def lock(tx: Connection, tenant_id: UUID) -> None:
    """Take the tenant's supersession lock until the transaction ends."""
    tx.execute(_LOCK, {"name": f"ebbing supersessions {tenant_id}"})


_LOCK: Final = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))")


def resolve_names(tx: Connection, tenant_id: UUID, names: Iterable[str]) -> dict[str, SupersessionEnd]:
    """Resolve names to memories: as an id or alias first, otherwise as the caller's external id.

    Names that match no memory are omitted.
    """
    ids_by_name = {name: _id(name) for name in names}
    values = {"tenant": tenant_id, "names": list(ids_by_name), "ids": list(ids_by_name.values())}
    return {name: SupersessionEnd(*rest) for name, *rest in tx.execute(_MEANT, values)} if ids_by_name else {}


def _id(name: str) -> UUID | None:
    try:
        return UUID(name)
    except ValueError:
        return None


_MEANT: Final = text("""
SELECT name, found.memory_id, found.subject, found.created_at, found.source
FROM unnest(CAST(:names AS text[]), CAST(:ids AS uuid[])) AS given (name, id)
CROSS JOIN LATERAL (
  SELECT memory_id, subject, created_at, source FROM (
    (SELECT 1 AS place, memory_id, subject, created_at, source FROM memories
     WHERE tenant_id = :tenant AND deleted_at IS NULL AND memory_id = coalesce(
       (SELECT memory_id FROM memory_aliases WHERE tenant_id = :tenant AND alias_id = given.id), given.id))
    UNION ALL
    (SELECT 2, memory_id, subject, created_at, source FROM memories
     WHERE tenant_id = :tenant AND deleted_at IS NULL AND external_id = given.name)
  ) AS either ORDER BY place LIMIT 1
) AS found
""")


def list_superseding(tx: Connection, tenant_id: UUID, memory_ids: Iterable[UUID]) -> set[SupersessionPair]:
    """Return the active supersessions by which these memories are superseded, directly or through other memories."""
    rows = driver_connection(tx).execute(_ABOVE, {"tenant": tenant_id, "ids": Uuids(list(memory_ids))}, binary=True)
    return {SupersessionPair(*row) for row in rows}


_ABOVE: Final = """
WITH RECURSIVE above (memory_id, superseded_id) AS (
  SELECT memory_id, superseded_id FROM supersessions
  WHERE tenant_id = %(tenant)s AND status = 'active' AND superseded_id = ANY (%(ids)s)
  UNION
  SELECT further.memory_id, further.superseded_id FROM above CROSS JOIN LATERAL (
    SELECT memory_id, superseded_id FROM supersessions
    WHERE tenant_id = %(tenant)s AND status = 'active' AND superseded_id = above.memory_id OFFSET 0
  ) AS further
)
SELECT memory_id, superseded_id FROM above
"""


def upsert_pairs(
    tx: Connection, tenant_id: UUID, judged: Sequence[PairOutcome], status: Status, source: Source
) -> list[SupersessionPair]:
    """Insert pairs with `status`; a pair whose outcome has a reason is inserted as proposed or rejected instead.

    The reason `source` makes it proposed, any other reason rejected. The caller holds the lock. Statements of callers
    and persons overwrite a supersession that has another status; a model's don't. No proposal overwrites a decision.

    Returns:
        The pairs that have this status now but didn't have it before.
    """
    values = {
        "tenant": tenant_id,
        "source": source,
        "memory_ids": [outcome.pair.memory_id for outcome in judged],
        "superseded_ids": [outcome.pair.superseded_id for outcome in judged],
        "since": [outcome.since for outcome in judged],
        "statuses": [_status(outcome, status) for outcome in judged],
        "reasons": [outcome.reason for outcome in judged],
    }
    return [SupersessionPair(*row[:2]) for row in tx.execute(_PUT, values) if row.status == status] if judged else []


def _status(outcome: PairOutcome, status: Status) -> Status:
    if outcome.reason is None:
        return status
    return "proposed" if outcome.reason == "source" else "rejected"


_PUT: Final = text("""
INSERT INTO supersessions AS known (tenant_id, memory_id, superseded_id, status, source, reason, since)
SELECT :tenant, memory_id, superseded_id, status, CAST(:source AS text), reason, since
FROM unnest(CAST(:memory_ids AS uuid[]), CAST(:superseded_ids AS uuid[]), CAST(:since AS timestamptz[]),
  CAST(:statuses AS text[]), CAST(:reasons AS text[])) AS given (memory_id, superseded_id, since, status, reason)
ON CONFLICT (tenant_id, memory_id, superseded_id) DO UPDATE
SET status = excluded.status, source = excluded.source, reason = excluded.reason, since = excluded.since
WHERE excluded.source <> 'model' AND known.status <> excluded.status
  AND NOT (excluded.status = 'proposed' AND known.decided_at IS NOT NULL)
RETURNING memory_id, superseded_id, status
""")


def insert_waiting(tx: Connection, tenant_id: UUID, waiting: Sequence[WaitingName]) -> None:
    """Store names whose memories don't exist yet."""
    if waiting:
        columns = {
            f"{name}s": list(values)
            for name, values in zip(WaitingName._fields, zip(*waiting, strict=True), strict=True)
        }
        tx.execute(_WAIT, {"tenant": tenant_id} | columns)


_WAIT: Final = text("""
INSERT INTO supersessions (tenant_id, memory_id, named, status, source, made_at)
SELECT :tenant, memory_id, named, 'waiting', 'caller', made_at
FROM unnest(CAST(:memory_ids AS uuid[]), CAST(:nameds AS text[]), CAST(:made_ats AS timestamptz[]))
  AS given (memory_id, named, made_at)
ON CONFLICT DO NOTHING
""")


def claim_waiting(tx: Connection, tenant_id: UUID, limit: int) -> list[WaitingName]:
    """Remove and return up to `limit` waiting names, oldest first."""
    return [WaitingName(*row) for row in tx.execute(_TAKE_WAITING, {"tenant": tenant_id, "limit": limit})]


_TAKE_WAITING: Final = text("""
DELETE FROM supersessions WHERE tenant_id = :tenant AND supersession_id = ANY (ARRAY(
  SELECT supersession_id FROM supersessions WHERE tenant_id = :tenant AND status = 'waiting'
  ORDER BY made_at, supersession_id LIMIT :limit))
RETURNING memory_id, named, made_at
""")


def list_around(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, MemorySupersessions]:
    """Return the active supersessions of these memories in both directions, by id; memories without any are omitted."""
    values = {"tenant": tenant_id, "ids": Uuids(memory_ids)}
    by_id: dict[UUID, MemorySupersessions] = {}
    for newer, older, since in driver_connection(tx).execute(_AROUND, values, binary=True):
        by_id.setdefault(newer, MemorySupersessions()).supersedes.append(older)
        entry = by_id.setdefault(older, MemorySupersessions())
        valid_to = since if entry.valid_to is None else min(since, entry.valid_to)
        by_id[older] = MemorySupersessions(entry.supersedes, [*entry.superseded_by, newer], valid_to)
    return {memory_id: by_id[memory_id] for memory_id in memory_ids if memory_id in by_id}


_AROUND: Final = """
SELECT memory_id, superseded_id, since FROM supersessions
WHERE tenant_id = %(tenant)s AND status = 'active' AND memory_id = ANY (%(ids)s)
UNION
SELECT memory_id, superseded_id, since FROM supersessions
WHERE tenant_id = %(tenant)s AND status = 'active' AND superseded_id = ANY (%(ids)s)
ORDER BY since, memory_id, superseded_id
"""


def list_statements(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[SupersessionStatement]:
    """Return all statements that these memories supersede others, with any status, by memory, oldest first."""
    values = {"tenant": tenant_id, "ids": Uuids(memory_ids)}
    return [SupersessionStatement(*row) for row in driver_connection(tx).execute(_SAID_OF, values)]


_SAID_OF: Final = """
SELECT memory_id, superseded_id, named, status, source, reason, made_at FROM supersessions
WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) ORDER BY memory_id, made_at, supersession_id
"""


def delete_all(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Delete all supersessions of deleted memories, whether or not their rows still exist.

    Indirect supersessions through these memories are replaced by direct supersessions. Memories that no other memory
    supersedes any more become current again.
    """
    lock(tx, tenant_id)
    for statement in (CLOSE, FORGET, _FORGET_HIDDEN):
        driver_connection(tx).execute(statement.encode(), {"tenant": tenant_id, "ids": Uuids(memory_ids)})


# Both ends exist: deleting a memory removes its supersessions under the same lock.
CLOSE: Final = """
WITH RECURSIVE through (memory_id, between, source) AS (
  SELECT memory_id, superseded_id, source FROM supersessions
  WHERE tenant_id = %(tenant)s AND status = 'active' AND superseded_id = ANY (%(ids)s) AND memory_id <> ALL (%(ids)s)
  UNION
  SELECT through.memory_id, further.superseded_id, through.source FROM through CROSS JOIN LATERAL (
    SELECT superseded_id FROM supersessions
    WHERE tenant_id = %(tenant)s AND status = 'active' AND memory_id = through.between OFFSET 0
  ) AS further
  WHERE through.between = ANY (%(ids)s)
)
INSERT INTO supersessions (tenant_id, memory_id, superseded_id, status, source, since)
SELECT DISTINCT ON (memory_id, between) %(tenant)s, memory_id, between, 'active', source, greatest(
  (SELECT created_at FROM memories WHERE tenant_id = %(tenant)s AND memories.memory_id = through.memory_id),
  (SELECT created_at FROM memories WHERE tenant_id = %(tenant)s AND memories.memory_id = through.between))
FROM through WHERE between <> ALL (%(ids)s)
ORDER BY memory_id, between, source
ON CONFLICT DO NOTHING
"""
OF_THEM: Final = """
FROM supersessions AS known WHERE tenant_id = %(tenant)s AND (
  memory_id = ANY (%(ids)s)
  OR (status IN ('active', 'proposed', 'rejected') AND superseded_id = ANY (%(ids)s)))
"""
FORGET: Final = f"DELETE {OF_THEM}"
_FORGET_HIDDEN: Final = """
DELETE FROM hidden_supersessions
WHERE tenant_id = %(tenant)s AND (memory_id = ANY (%(ids)s) OR superseded_id = ANY (%(ids)s))
"""


_RELATIONS: Final = """
SELECT supersession_id, known.memory_id, superseded_id, named, status, source, reason, since, made_at, decided_at,
  decided_by, newer.text, (
    SELECT text FROM memories
    WHERE memories.tenant_id = :tenant AND memories.memory_id = known.superseded_id) AS superseded_text
FROM supersessions AS known CROSS JOIN LATERAL (
  SELECT text FROM memories WHERE memories.tenant_id = :tenant AND memories.memory_id = known.memory_id OFFSET 0
) AS newer
WHERE tenant_id = :tenant
"""


def list_supersessions(
    tx: Connection, tenant_id: UUID, status: Status | None, memory_id: UUID | None, before: Place | None, limit: int
) -> Page[StoredSupersession]:
    """Return a page of supersessions, latest first.

    Args:
        status: Only supersessions with this status.
        memory_id: Only supersessions with this memory at either end.
        before: Creation time and id of the previous page's last entry.
    """
    return _PAGES.read(
        tx, lambda row: StoredSupersession(*row), before, limit, tenant=tenant_id, status=status, memory_id=memory_id
    )


_PAGES: Final = Latest(f"""
{_RELATIONS}
  AND (CAST(:status AS text) IS NULL OR status = :status)
  AND (CAST(:memory_id AS uuid) IS NULL OR known.memory_id = :memory_id OR superseded_id = :memory_id)
ORDER BY made_at DESC, supersession_id DESC""")


def get(tx: Connection, tenant_id: UUID, supersession_id: UUID) -> StoredSupersession | None:
    """Return a supersession by its id, or None if it doesn't exist."""
    return build_one(StoredSupersession, tx.execute(_GET, {"tenant": tenant_id, "id": supersession_id}))


_GET: Final = text(f"{_RELATIONS} AND supersession_id = :id")


def get_relation(tx: Connection, tenant_id: UUID, pair: SupersessionPair) -> StoredSupersession:
    """Return the supersession of two memories, which must exist."""
    return StoredSupersession(*tx.execute(_OF, {"tenant": tenant_id, **pair._asdict()}).one())


_OF: Final = text(f"{_RELATIONS} AND known.memory_id = :memory_id AND superseded_id = :superseded_id")


def set_status(
    tx: Connection, tenant_id: UUID, supersession_id: UUID, status: Status, reason: str | None, decided_by: str
) -> None:
    """Change a supersession's status manually; the caller holds the lock."""
    values = {"tenant": tenant_id, "id": supersession_id, "status": status, "reason": reason, "by": decided_by}
    tx.execute(_DECIDE, values)


_DECIDE: Final = text("""
UPDATE supersessions SET status = :status, reason = :reason, decided_at = now(), decided_by = :by
WHERE tenant_id = :tenant AND supersession_id = :id
""")


def drop_name(tx: Connection, tenant_id: UUID, supersession_id: UUID) -> None:
    """Delete a waiting name."""
    tx.execute(_DROP, {"tenant": tenant_id, "id": supersession_id})


_DROP: Final = text("DELETE FROM supersessions WHERE tenant_id = :tenant AND supersession_id = :id")


def read_ends(tx: Connection, tenant_id: UUID, memory_ids: Iterable[UUID]) -> dict[UUID, SupersessionEnd]:
    """Return subject, acceptance time and source of these memories, by id; deleted memories are omitted."""
    rows = driver_connection(tx).execute(_ENDS, {"tenant": tenant_id, "ids": Uuids(list(memory_ids))}, binary=True)
    return {row[0]: SupersessionEnd(*row) for row in rows}


_ENDS: Final = """
SELECT memory_id, subject, created_at, source FROM memories
WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND deleted_at IS NULL
"""
