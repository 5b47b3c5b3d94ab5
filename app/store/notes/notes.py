"""Read promoted memories for their notes, and remember which notes are written and which clients have copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection

from app.domain.notes.note import NoteLink, PromotedMemory
from app.store.core.binary_arrays import Uuids, driver_connection, fetch_column, fetch_value
from app.store.privacy.holds import HOLDS


class WrittenNote(NamedTuple):
    """A promoted memory with the state of its note.

    Attributes:
        digest: SHA-256 of the note as written; None if it must be replaced even if it was edited.
        is_listed: True if a note was written.
        is_cold: True if the memory is in cold storage, where its row has only the first sentences.
        updated_at: Time of the last edit; None if there was none.
    """

    memory: PromotedMemory
    digest: bytes | None
    is_listed: bool
    is_cold: bool
    updated_at: datetime | None


def list_promoted(tx: Connection, tenant_id: UUID, after: UUID, limit: int) -> list[WrittenNote]:
    """Return a page of promoted memories in id order, with their sources and links; deleted ones are omitted."""
    values = {"tenant": tenant_id, "after": after, "limit": limit}
    rows = driver_connection(tx).execute(_PROMOTED, values).fetchall()
    ids = Uuids([row[0] for row in rows])
    sources: dict[UUID, list[UUID]] = {}
    for memory_id, source_id in driver_connection(tx).execute(_SOURCES, {"tenant": tenant_id, "ids": ids}):
        sources.setdefault(memory_id, []).append(source_id)
    links: dict[UUID, list[NoteLink]] = {}
    for memory_id, *link in driver_connection(tx).execute(_LINKS, {"tenant": tenant_id, "ids": ids}):
        links.setdefault(memory_id, []).append(NoteLink(*link))
    return [
        WrittenNote(
            PromotedMemory(
                *(*row[:4], tuple(row[4]), *row[5:10], tuple(sources.get(row[0], ())), links.get(row[0], ())),
            ),
            *row[10:],
        )
        for row in rows
    ]


_PROMOTED: Final = """
SELECT memory.memory_id, memory.text, memory.subject, memory.kind, memory.tags, memory.created_at, memory.occurred_at,
  state.promoted_at, state.promoted_for, state.promoted_strength, note.digest, note.memory_id IS NOT NULL,
  state.tier = 'cold', memory.updated_at
FROM memory_state AS state
JOIN memories AS memory ON memory.tenant_id = %(tenant)s AND memory.memory_id = state.memory_id
  AND memory.deleted_at IS NULL
LEFT JOIN notes AS note ON note.tenant_id = %(tenant)s AND note.memory_id = state.memory_id
WHERE state.tenant_id = %(tenant)s AND state.memory_id > %(after)s AND state.promoted_at IS NOT NULL
ORDER BY state.memory_id LIMIT %(limit)s
"""
_SOURCES: Final = """
SELECT summary.summary_id, lineage.memory_id
FROM merges AS summary
JOIN lineage ON lineage.tenant_id = %(tenant)s AND lineage.merge_id = summary.merge_id AND lineage.part = 'source'
WHERE summary.tenant_id = %(tenant)s AND summary.summary_id = ANY (%(ids)s)
ORDER BY summary.summary_id, lineage.memory_id
"""
_WANTED: Final = """(
    SELECT state.promoted_at IS NOT NULL AND memory.deleted_at IS NULL
    FROM memory_state AS state JOIN memories AS memory USING (tenant_id, memory_id)
    WHERE state.tenant_id = %(tenant)s AND state.memory_id = {memory_id})"""
_LINKS: Final = f"""
SELECT link.memory_id, link.other_id, link.kind, link.is_outgoing FROM (
  SELECT memory_id, other_id, kind, true AS is_outgoing FROM links
  WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)
  UNION ALL
  SELECT other_id, memory_id, kind, false FROM links WHERE tenant_id = %(tenant)s AND other_id = ANY (%(ids)s)
) AS link WHERE {_WANTED.format(memory_id="link.other_id")}
"""  # noqa: S608 - constants only


def lock_promoted(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, datetime | None]:
    """Lock the rows of these memories against deletions and edits, in id order.

    Returns:
        The time of the last edit of each memory that is still promoted.
    """
    values = {"tenant": tenant_id, "ids": Uuids(memory_ids)}
    return dict(driver_connection(tx).execute(_LOCK_PROMOTED, values).fetchall())


_LOCK_PROMOTED: Final = """
SELECT memory.memory_id, memory.updated_at FROM memories AS memory
WHERE memory.tenant_id = %(tenant)s AND memory.memory_id = ANY (%(ids)s) AND memory.deleted_at IS NULL AND (
  SELECT promoted_at IS NOT NULL FROM memory_state AS state
  WHERE state.tenant_id = %(tenant)s AND state.memory_id = memory.memory_id)
ORDER BY memory.memory_id FOR SHARE OF memory
"""


def save(tx: Connection, tenant_id: UUID, digests: Mapping[UUID, bytes]) -> None:
    """Remember the notes that were written, with their digests."""
    values = {"tenant": tenant_id, "ids": Uuids(list(digests)), "digests": list(digests.values())}
    driver_connection(tx).execute(_SAVE, values)


_SAVE: Final = """
INSERT INTO notes AS known (tenant_id, memory_id, digest)
SELECT %(tenant)s, memory_id, digest FROM unnest(%(ids)s, %(digests)s::bytea[]) AS given (memory_id, digest)
ON CONFLICT (tenant_id, memory_id) DO UPDATE SET digest = excluded.digest, written_at = now()
"""


def expire(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> int:
    """Mark notes so that they are replaced or removed even if they were edited; return their number."""
    return driver_connection(tx).execute(_EXPIRE, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).rowcount


_EXPIRE: Final = "UPDATE notes SET digest = NULL WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)"


def forget(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Forget notes that were removed."""
    driver_connection(tx).execute(_FORGET, {"tenant": tenant_id, "ids": Uuids(memory_ids)})


_FORGET: Final = "DELETE FROM notes WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)"


def count(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> int:
    """Count the notes of these memories that are known to be written."""
    values = {"tenant": tenant_id, "ids": Uuids(memory_ids)}
    return len(fetch_column(tx, _KNOWN, values))


_KNOWN: Final = "SELECT memory_id FROM notes WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)"


def count_all(tx: Connection, tenant_id: UUID) -> int:
    """Count the tenant's notes that are known to be written."""
    return int(fetch_value(tx, "SELECT count(*) FROM notes WHERE tenant_id = %(tenant)s", {"tenant": tenant_id}))


class UnwantedNotes(NamedTuple):
    """Memories that shouldn't have a note.

    Attributes:
        gone: Memories that don't exist, or whose note contains data that must be removed.
        hidden: Memories that an erasure hides; the record of their note remains, for the erasure's report.
        demoted: Memories that exist without being promoted.
        held: Memories under a legal hold, whose notes remain.
    """

    gone: list[UUID]
    hidden: list[UUID]
    demoted: list[UUID]
    held: list[UUID]


def find_unwanted(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> UnwantedNotes:
    """Return which of these memories shouldn't have a note, and why."""
    values = {"tenant": tenant_id, "ids": Uuids(memory_ids)}
    unwanted = UnwantedNotes([], [], [], [])
    for memory_id, kind in driver_connection(tx).execute(_UNWANTED, values):
        getattr(unwanted, kind).append(memory_id)
    return unwanted


_UNWANTED: Final = f"""
SELECT id, CASE WHEN memory.memory_id IS NULL THEN 'gone' WHEN memory.deleted_at IS NOT NULL THEN 'hidden'
  WHEN EXISTS (SELECT FROM holds AS hold WHERE hold.tenant_id = %(tenant)s AND {HOLDS}) THEN 'held'
  WHEN note.memory_id IS NOT NULL AND note.digest IS NULL THEN 'gone' ELSE 'demoted' END
FROM unnest(%(ids)s) AS id
LEFT JOIN memories AS memory ON memory.tenant_id = %(tenant)s AND memory.memory_id = id
LEFT JOIN memory_state AS state ON state.tenant_id = %(tenant)s AND state.memory_id = id
LEFT JOIN notes AS note ON note.tenant_id = %(tenant)s AND note.memory_id = id
WHERE memory.memory_id IS NULL OR memory.deleted_at IS NOT NULL OR state.promoted_at IS NULL
ORDER BY id
"""  # noqa: S608 - constants only


def list_known(tx: Connection, tenant_id: UUID, after: UUID, limit: int) -> list[UUID]:
    """Return a page of memories with a known note, in id order."""
    return fetch_column(tx, _LIST_KNOWN, {"tenant": tenant_id, "after": after, "limit": limit})


_LIST_KNOWN: Final = """
SELECT memory_id FROM notes WHERE tenant_id = %(tenant)s AND memory_id > %(after)s ORDER BY memory_id LIMIT %(limit)s
"""


class NoteCopy(NamedTuple):
    """A folder to which an API client copies notes: number of copy runs, and times of the first and the last run."""

    name: str
    runs: int
    first_at: datetime
    last_at: datetime


def register_copy(tx: Connection, tenant_id: UUID, copy_id: UUID, name: str) -> None:
    """Record that a client copies the notes into a folder."""
    driver_connection(tx).execute(_REGISTER, {"tenant": tenant_id, "copy_id": copy_id, "name": name})


_REGISTER: Final = """
INSERT INTO note_copies AS known (tenant_id, copy_id, name) VALUES (%(tenant)s, %(copy_id)s, %(name)s)
ON CONFLICT (tenant_id, copy_id) DO UPDATE SET name = excluded.name, runs = known.runs + 1, last_at = now()
"""


def list_copies(tx: Connection, tenant_id: UUID) -> list[NoteCopy]:
    """Return the clients' folders, in order of their names."""
    return [NoteCopy(*row) for row in driver_connection(tx).execute(_COPIES, {"tenant": tenant_id})]


_COPIES: Final = """
SELECT name, runs, first_at, last_at FROM note_copies WHERE tenant_id = %(tenant)s ORDER BY name, copy_id
"""
