"""Store merges (a summary or links made from a group of memories), their lineage, and the staleness of summaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.consolidation.group_decision import Action
from app.domain.consolidation.parameters import Level
from app.store.core.binary_arrays import Uuids, driver_connection, fetch_column
from app.store.core.paging import Latest, Page, Place, build_one

Status = Literal["waiting", "done", "rejected", "undone", "gone"]
Part = Literal["source", "kept", "linked"]


@dataclass(frozen=True, slots=True)
class Merge:
    """A group of memories and the outcome of merging it.

    Attributes:
        sources: Number of memories that were summarised or linked.
        summary_version: Text version of the generated summary; another version of the memory means a manual edit.
        is_stale: True if a source was changed or removed after the summary was written.
        characters_before: Total length of the sources' texts.
        characters_after: Length of the summary.
        decided_by: Id of the key that approved, rejected or undid the merge.
    """

    merge_id: UUID
    run_id: UUID
    action: Action
    status: Status
    level: Level
    cohesion: float
    sources: int
    created_at: datetime
    summary_id: UUID | None = None
    summary_version: int | None = None
    method: str | None = None
    model: str | None = None
    key_points: list[str] = field(default_factory=list, repr=False)
    is_stale: bool = False
    characters_before: int = 0
    characters_after: int = 0
    decided_at: datetime | None = None
    decided_by: str | None = None


class Ancestor(NamedTuple):
    """A memory of a merge, with its role and its text version at that time."""

    merge_id: UUID
    memory_id: UUID
    text_version: int
    part: Part


_NAMES: Final = [each.name for each in fields(Merge)]
_COLUMNS: Final = ", ".join(_NAMES)


def add(tx: Connection, tenant_id: UUID, merges: Sequence[Merge], lineage: Sequence[Ancestor]) -> None:
    """Insert merges with their lineage."""
    rows = [{name: getattr(merge, name) for name in _NAMES} | {"tenant": tenant_id} for merge in merges]
    if rows:
        tx.execute(_ADD, rows)
        add_lineage(tx, tenant_id, lineage)


def add_lineage(tx: Connection, tenant_id: UUID, lineage: Sequence[Ancestor]) -> None:
    """Insert or update the memories of merges, with their text versions."""
    values = {name: [getattr(ancestor, name) for ancestor in lineage] for name in Ancestor._fields}
    driver_connection(tx).execute(_ADD_LINEAGE, {"tenant": tenant_id} | values)


_ADD: Final = text(f"""
INSERT INTO merges (tenant_id, {_COLUMNS}) VALUES (:tenant, {", ".join(f":{name}" for name in _NAMES)})
""")  # noqa: S608 - constants only
_ADD_LINEAGE: Final = """
INSERT INTO lineage (tenant_id, merge_id, memory_id, text_version, part)
SELECT %(tenant)s, merge_id, memory_id, text_version, part
FROM unnest(%(merge_id)s::uuid[], %(memory_id)s::uuid[], %(text_version)s::int[], %(part)s::text[])
  AS given (merge_id, memory_id, text_version, part)
ORDER BY merge_id, memory_id ON CONFLICT (tenant_id, merge_id, memory_id) DO UPDATE
SET text_version = excluded.text_version, part = excluded.part
"""


def get(tx: Connection, tenant_id: UUID, merge_id: UUID, *, lock: bool = False) -> Merge | None:
    """Return a merge by its id, optionally locked, or None if it doesn't exist."""
    return build_one(Merge, tx.execute(_LOCK if lock else _GET, {"tenant": tenant_id, "merge_id": merge_id}))


_GET: Final = text(f"SELECT {_COLUMNS} FROM merges WHERE tenant_id = :tenant AND merge_id = :merge_id")  # noqa: S608
_LOCK: Final = text(f"{_GET.text} FOR UPDATE")


def list_merges(
    tx: Connection, tenant_id: UUID, status: Status | None, older_than: Place | None, limit: int
) -> Page[Merge]:
    """Return a page of merges, newest first."""
    return _PAGES.read(tx, lambda row: Merge(*row), older_than, limit, tenant=tenant_id, status=status)


_PAGES: Final = Latest(f"""
SELECT {_COLUMNS} FROM merges
WHERE tenant_id = :tenant AND (CAST(:status AS text) IS NULL OR status = :status)
ORDER BY created_at DESC, merge_id""")  # noqa: S608 - constants only


def list_by_memory(tx: Connection, tenant_id: UUID, memory_id: UUID) -> list[Merge]:
    """Return the merges that created this memory or included it, newest first."""
    return [Merge(*row) for row in tx.execute(_OF_MEMORY, {"tenant": tenant_id, "memory_id": memory_id})]


_OF_MEMORY: Final = text(f"""
SELECT {_COLUMNS} FROM merges
WHERE tenant_id = :tenant AND (summary_id = :memory_id OR merge_id = ANY (ARRAY(
  SELECT merge_id FROM lineage WHERE tenant_id = :tenant AND memory_id = :memory_id)))
ORDER BY created_at DESC, merge_id
""")  # noqa: S608 - constants only


def list_ancestors(tx: Connection, tenant_id: UUID, merge_ids: Sequence[UUID]) -> list[Ancestor]:
    """Return the lineage of these merges, ordered by merge id and memory id."""
    rows = driver_connection(tx).execute(_ANCESTORS, {"tenant": tenant_id, "ids": Uuids(merge_ids)})
    return [Ancestor(*row) for row in rows]


_ANCESTORS: Final = """
SELECT merge_id, memory_id, text_version, part FROM lineage
WHERE tenant_id = %(tenant)s AND merge_id = ANY (%(ids)s) ORDER BY merge_id, memory_id
"""


class Kin(NamedTuple):
    """An existing summary and a memory in its lineage."""

    summary_id: UUID
    memory_id: UUID
    part: Part


def list_kin(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], limit: int) -> list[Kin]:
    """Return the pairs from completed merges in which one of these memories is the summary or in its lineage."""
    rows = driver_connection(tx).execute(_KIN, {"tenant": tenant_id, "ids": Uuids(memory_ids), "limit": limit})
    return [Kin(*row) for row in rows]


_KIN: Final = """
SELECT merge.summary_id, ancestor.memory_id, ancestor.part
FROM unnest(ARRAY(
  SELECT merge_id FROM lineage WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)
  UNION
  SELECT merge_id FROM merges WHERE tenant_id = %(tenant)s AND summary_id = ANY (%(ids)s) AND summary_id IS NOT NULL
)) AS id
CROSS JOIN LATERAL (
  SELECT merge_id, summary_id, created_at FROM merges
  WHERE tenant_id = %(tenant)s AND merge_id = id AND status = 'done' AND summary_id IS NOT NULL OFFSET 0
) AS merge
CROSS JOIN LATERAL (
  SELECT memory_id, part FROM lineage WHERE tenant_id = %(tenant)s AND merge_id = id OFFSET 0
) AS ancestor
WHERE merge.summary_id = ANY (%(ids)s) OR ancestor.memory_id = ANY (%(ids)s)
ORDER BY merge.created_at, merge.merge_id, ancestor.memory_id LIMIT %(limit)s
"""


def list_summaries(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Return the summaries that include any of these memories as a source, in id order."""
    return fetch_column(tx, _SUMMARIES_OF, {"tenant": tenant_id, "ids": Uuids(memory_ids)})


_SUMMARIES_OF: Final = """
SELECT DISTINCT summary_id FROM merges
WHERE tenant_id = %(tenant)s AND summary_id IS NOT NULL AND merge_id = ANY (ARRAY(
  SELECT merge_id FROM lineage WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND part = 'source'))
ORDER BY summary_id
"""


def list_sources(tx: Connection, tenant_id: UUID, summary_ids: Sequence[UUID]) -> dict[UUID, list[UUID]]:
    """Return the sources of each of these summaries, by the summary's id."""
    rows = driver_connection(tx).execute(_SOURCES_OF, {"tenant": tenant_id, "ids": Uuids(summary_ids)}).fetchall()
    return {summary_id: list(sources) for summary_id, sources in rows}


_SOURCES_OF: Final = """
SELECT summary_id, array_agg(memory_id ORDER BY memory_id) FROM merges CROSS JOIN LATERAL (
  SELECT memory_id FROM lineage
  WHERE lineage.tenant_id = %(tenant)s AND lineage.merge_id = merges.merge_id AND part = 'source' OFFSET 0
) AS source
WHERE tenant_id = %(tenant)s AND summary_id = ANY (%(ids)s) GROUP BY summary_id
"""


def forget(tx: Connection, tenant_id: UUID, merge_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Remove deleted memories from a merge's lineage."""
    driver_connection(tx).execute(_FORGET, {"tenant": tenant_id, "merge_id": merge_id, "ids": Uuids(memory_ids)})


_FORGET: Final = """
DELETE FROM lineage WHERE tenant_id = %(tenant)s AND merge_id = %(merge_id)s AND memory_id = ANY (%(ids)s)
"""


def update_merge(tx: Connection, tenant_id: UUID, merge_id: UUID, columns: Mapping[str, Any]) -> None:
    """Update columns of a merge whose row is locked."""
    assignments = ", ".join(f"{name} = :{name}" for name in columns if name in _NAMES)
    statement = text(f"UPDATE merges SET {assignments} WHERE tenant_id = :tenant AND merge_id = :merge")  # noqa: S608
    tx.execute(statement, {**columns, "tenant": tenant_id, "merge": merge_id})


def make_stale(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], summary_ids: Sequence[UUID] = ()) -> bool:
    """Mark the summaries of these changed or removed sources as stale. Return True if any summary was marked.

    Args:
        summary_ids: Summaries that are also marked, unless all their sources are deleted.
    """
    values = {"tenant": tenant_id, "ids": Uuids(memory_ids), "summaries": Uuids(summary_ids)}
    return driver_connection(tx).execute(_MAKE_STALE, values).rowcount > 0


_MAKE_STALE: Final = """
UPDATE merges SET is_stale = true
WHERE tenant_id = %(tenant)s AND status = 'done' AND summary_id IS NOT NULL AND merge_id = ANY (ARRAY(
  SELECT merge_id FROM lineage
  WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND part = 'source'
  UNION ALL
  SELECT merge_id FROM merges AS derived
  WHERE tenant_id = %(tenant)s AND summary_id = ANY (%(summaries)s) AND summary_id IS NOT NULL AND EXISTS (
    SELECT FROM lineage AS source
    WHERE source.tenant_id = %(tenant)s AND source.merge_id = derived.merge_id AND part = 'source')))
"""


def list_stale(tx: Connection, tenant_id: UUID, after: UUID, limit: int) -> list[UUID]:
    """Return a page of merges whose summaries must be refreshed, by id."""
    return fetch_column(tx, _STALE, {"tenant": tenant_id, "after": after, "limit": limit})


_STALE: Final = """
SELECT merge_id FROM merges WHERE tenant_id = %(tenant)s AND is_stale AND merge_id > %(after)s
ORDER BY merge_id LIMIT %(limit)s
"""


def list_stale_by_memory(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Return stale merges that have any of these memories as a source or as their summary, in id order."""
    return fetch_column(tx, _STALE_OF, {"tenant": tenant_id, "ids": Uuids(memory_ids)})


_STALE_OF: Final = """
SELECT merge_id FROM merges WHERE tenant_id = %(tenant)s AND is_stale AND (summary_id = ANY (%(ids)s)
  OR merge_id = ANY (ARRAY(
    SELECT merge_id FROM lineage WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND part = 'source')))
ORDER BY merge_id
"""
