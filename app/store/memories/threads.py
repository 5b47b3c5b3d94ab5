"""List threads with counts and times, and number the memories of a thread in order of acceptance."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

from app.store.core.paging import Page, page_of

SUBJECTS_SHOWN: Final = 20
"""Maximum number of subjects listed for a thread."""


class ThreadSummary(NamedTuple):
    """A thread and its stored memories, without deleted and hidden ones.

    Attributes:
        first_at: The earliest time at which a memory happened or, if unknown, was accepted.
        last_at: The latest such time.
        subjects: The memories' subjects in order, at most `SUBJECTS_SHOWN`.
        subject_count: Number of different subjects.
        first_id: The lowest id.
    """

    thread: str
    memories: int
    first_at: datetime
    last_at: datetime
    subjects: list[str]
    subject_count: int
    first_id: UUID


def list_threads(
    tx: Connection, tenant_id: UUID, subject: str | None, after: UUID | None, limit: int
) -> Page[ThreadSummary] | None:
    """Return a page of a tenant's threads in order of their names, or None if `after` no longer exists.

    Args:
        subject: Only threads with a memory about this subject; all of a thread's memories count.
        after: Lowest id of the memories in the last thread of the previous page. The cursor contains this id
            instead of the thread's name, because cursors are part of URLs.
    """
    name = None
    if after is not None:
        name = tx.execute(_NAME_OF, {"tenant": tenant_id, "memory_id": after}).scalar()
        if name is None:
            return None
    values = {"tenant": tenant_id, "after": name, "subject": subject, "limit": limit, "shown": SUBJECTS_SHOWN}
    rows = [ThreadSummary(*row) for row in tx.execute(_LIST if subject is None else _LIST_OF_SUBJECT, values)]
    return page_of(rows, limit, lambda row: row.first_id)


_NAME_OF: Final = text("SELECT thread FROM memories WHERE tenant_id = :tenant AND memory_id = :memory_id")

# Each name costs one descent of the index `memories_thread`.
_NAMES: Final = """
WITH RECURSIVE name AS (
  (SELECT thread, 1 AS place FROM memories
   WHERE tenant_id = :tenant AND thread IS NOT NULL AND deleted_at IS NULL
     AND (CAST(:after AS text) IS NULL OR thread > :after)
   ORDER BY thread LIMIT 1)
  UNION ALL
  SELECT following.thread, name.place + 1 FROM name CROSS JOIN LATERAL (
    SELECT thread FROM memories
    WHERE tenant_id = :tenant AND thread IS NOT NULL AND deleted_at IS NULL AND thread > name.thread
    ORDER BY thread LIMIT 1) AS following
  WHERE name.place < :limit
)"""
_NAMES_OF_SUBJECT: Final = """
WITH name AS (
  SELECT DISTINCT thread FROM memories
  WHERE tenant_id = :tenant AND subject = :subject AND thread IS NOT NULL AND deleted_at IS NULL
    AND (CAST(:after AS text) IS NULL OR thread > :after)
  ORDER BY thread LIMIT :limit
)"""
_COUNTED: Final = """
SELECT name.thread, counted.memories, counted.first_at, counted.last_at,
  coalesce(counted.subjects[1 : CAST(:shown AS integer)], '{}'), coalesce(cardinality(counted.subjects), 0), (
    SELECT memory_id FROM memories
    WHERE tenant_id = :tenant AND thread = name.thread AND deleted_at IS NULL ORDER BY memory_id LIMIT 1)
FROM name CROSS JOIN LATERAL (
  SELECT count(*) AS memories, min(coalesce(occurred_at, created_at)) AS first_at,
    max(coalesce(occurred_at, created_at)) AS last_at,
    array_agg(DISTINCT subject ORDER BY subject) FILTER (WHERE subject IS NOT NULL) AS subjects
  FROM memories WHERE tenant_id = :tenant AND thread = name.thread AND deleted_at IS NULL) AS counted
ORDER BY name.thread
"""
_LIST: Final = text(_NAMES + _COUNTED)
_LIST_OF_SUBJECT: Final = text(_NAMES_OF_SUBJECT + _COUNTED)


def number_turns(tx: Connection, tenant_id: UUID, thread: str, memory_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Return the places of these memories in their thread, from 1, by id; deleted and hidden memories don't count."""
    values = {"tenant": tenant_id, "thread": thread, "ids": list(memory_ids)}
    return {row.memory_id: row.turn for row in tx.execute(_TURNS, values)}


_TURNS: Final = text("""
SELECT memory_id, turn FROM (
  SELECT memory_id, row_number() OVER (ORDER BY seq) AS turn FROM memories
  WHERE tenant_id = :tenant AND thread = :thread AND deleted_at IS NULL
) AS numbered
WHERE memory_id = ANY (CAST(:ids AS uuid[]))
""")
