"""Count the data stored about a subject, list subjects, and find subjects by an alias."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.privacy.subject_names import spelling_variants
from app.store.core.paging import Page, page_of
from app.store.privacy.holds import HOLDS


class Subject(NamedTuple):
    """Counts of a subject's data.

    Attributes:
        hidden: Memories that are deleted or hidden by an open erasure, and therefore in no tier.
        held: Memories under a legal hold, including hidden ones.
        exports: Exports of the subject that are running or can be downloaded.
        open_erasures: Unfinished erasures whose scope names this subject, alone or with other conditions.
    """

    active: int
    archived: int
    cold: int
    hidden: int
    held: int
    exports: int
    open_erasures: int


def read(tx: Connection, tenant_id: UUID, subject: str) -> Subject:
    """Count a subject's data; all counts are 0 for an unknown subject."""
    return Subject(*tx.execute(_READ, {"tenant": tenant_id, "subject": subject}).one())


_READ: Final = text(f"""
WITH about AS MATERIALIZED (
  SELECT memory.*, (
    SELECT tier FROM memory_state AS state
    WHERE state.tenant_id = :tenant AND state.memory_id = memory.memory_id) AS tier
  FROM memories AS memory WHERE tenant_id = :tenant AND subject = :subject
)
SELECT count(*) FILTER (WHERE tier = 'active'), count(*) FILTER (WHERE tier = 'archived'),
  count(*) FILTER (WHERE tier = 'cold'), count(*) FILTER (WHERE deleted_at IS NOT NULL),
  count(*) FILTER (WHERE EXISTS (SELECT FROM holds AS hold WHERE hold.tenant_id = :tenant AND {HOLDS})),
  (SELECT count(*) FROM exports
   WHERE tenant_id = :tenant AND subject = :subject AND status IN ('running', 'ready')),
  (SELECT count(*) FROM erasures
   WHERE tenant_id = :tenant AND status IN ('grace', 'running', 'held') AND scope->>'subject' = :subject)
FROM about AS memory
""")  # noqa: S608 - constants only


class SubjectCount(NamedTuple):
    """A subject, the number of stored memories about it, of which `hidden` are hidden, and their lowest id."""

    subject: str
    memories: int
    hidden: int
    first_id: UUID


def list_subjects(tx: Connection, tenant_id: UUID, after: UUID | None, limit: int) -> Page[SubjectCount] | None:
    """Return a page of a tenant's subjects in order of their names, or None if `after` no longer exists.

    Args:
        after: Lowest id of the memories about the last subject of the previous page. The cursor contains this
            id instead of the subject's name, because cursors are part of URLs.
    """
    name = None
    if after is not None:
        name = tx.execute(_NAME_OF, {"tenant": tenant_id, "memory_id": after}).scalar()
        if name is None:
            return None
    names = list_names(tx, tenant_id, name, limit)
    return page_of(count_memories(tx, tenant_id, names), limit, lambda row: row.first_id)


_NAME_OF: Final = text("SELECT subject FROM memories WHERE tenant_id = :tenant AND memory_id = :memory_id")


def list_names(tx: Connection, tenant_id: UUID, after: str | None, limit: int) -> list[str]:
    """Return subjects in order, each once: one descent of the index `memories_subject` per name."""
    return list(tx.execute(_LIST_NAMES, {"tenant": tenant_id, "after": after, "limit": limit}).scalars())


_LIST_NAMES: Final = text("""
WITH RECURSIVE name AS (
  (SELECT subject, 1 AS place FROM memories
   WHERE tenant_id = :tenant AND subject IS NOT NULL AND (CAST(:after AS text) IS NULL OR subject > :after)
   ORDER BY subject LIMIT 1)
  UNION ALL
  SELECT following.subject, name.place + 1 FROM name CROSS JOIN LATERAL (
    SELECT subject FROM memories WHERE tenant_id = :tenant AND subject IS NOT NULL AND subject > name.subject
    ORDER BY subject LIMIT 1) AS following
  WHERE name.place < :limit
)
SELECT subject FROM name
""")


def count_memories(tx: Connection, tenant_id: UUID, names: Sequence[str]) -> list[SubjectCount]:
    """Count the memories about each of these subjects, in order of their names; unknown names are omitted."""
    return [SubjectCount(*row) for row in tx.execute(_COUNT_MEMORIES, {"tenant": tenant_id, "names": list(names)})]


_COUNT_MEMORIES: Final = text("""
SELECT wanted.name, counted.memories, counted.hidden, (
    SELECT memory_id FROM memories WHERE tenant_id = :tenant AND subject = wanted.name ORDER BY memory_id LIMIT 1)
FROM (SELECT DISTINCT name FROM unnest(CAST(:names AS text[])) AS name) AS wanted
CROSS JOIN LATERAL (
  SELECT count(*) AS memories, count(*) FILTER (WHERE deleted_at IS NOT NULL) AS hidden
  FROM memories WHERE tenant_id = :tenant AND subject = wanted.name) AS counted
WHERE counted.memories > 0 ORDER BY wanted.name
""")


def find_namesakes(tx: Connection, tenant_id: UUID, subject: str) -> list[str]:
    """Return the other stored subjects with this name in a usual spelling, such as `Mei Chen` for `MEI CHEN`."""
    spellings = [spelling for spelling in spelling_variants(subject) if spelling != subject]
    return [each.subject for each in count_memories(tx, tenant_id, spellings)]


class Hiding(NamedTuple):
    """An open erasure, or a quarantine, and the number of the queried memories that it hides.

    Attributes:
        id: Id of the erasure or quarantine.
        status: `grace`, `running` or `held` for an erasure, or `quarantine`.
        erase_after: End of the erasure's grace period; None for a quarantine.
    """

    id: UUID
    status: str
    erase_after: datetime | None
    memories: int


def count_hidden(tx: Connection, tenant_id: UUID, names: Sequence[str], but: UUID) -> list[Hiding]:
    """Count the hidden memories about these subjects by the erasure or quarantine that hides them, most first.

    Args:
        but: Id of an erasure whose memories aren't counted.
    """
    values = {"tenant": tenant_id, "names": list(names), "but": but}
    return [Hiding(*row) for row in tx.execute(_COUNT_HIDDEN, values)]


_COUNT_HIDDEN: Final = text("""
SELECT hidden.erasure_id, coalesce(erasure.status, 'quarantine'), erasure.erase_after, count(*)
FROM memories AS memory
JOIN hidden_memories AS hidden ON hidden.tenant_id = :tenant AND hidden.memory_id = memory.memory_id
LEFT JOIN erasures AS erasure ON erasure.tenant_id = :tenant AND erasure.erasure_id = hidden.erasure_id
WHERE memory.tenant_id = :tenant AND memory.subject = ANY (CAST(:names AS text[])) AND hidden.erasure_id <> :but
GROUP BY hidden.erasure_id, erasure.status, erasure.erase_after ORDER BY count(*) DESC, hidden.erasure_id
""")


def is_known(tx: Connection, tenant_id: UUID, subject: str) -> bool:
    """Return True if any memory about this subject is stored, hidden ones included."""
    return bool(tx.execute(_IS_KNOWN, {"tenant": tenant_id, "subject": subject}).scalar())


_IS_KNOWN: Final = text("SELECT EXISTS (SELECT FROM memories WHERE tenant_id = :tenant AND subject = :subject)")


def list_in_erasure(tx: Connection, tenant_id: UUID, names: Sequence[str]) -> set[str]:
    """Return those of these subjects that an open erasure covers completely, with their future memories."""
    return set(tx.execute(_IN_ERASURE, {"tenant": tenant_id, "names": list(names)}).scalars())


_IN_ERASURE: Final = text("""
SELECT DISTINCT scope->>'subject' FROM erasures
WHERE tenant_id = :tenant AND status IN ('grace', 'running', 'held')
  AND scope->>'subject' = ANY (CAST(:names AS text[])) AND scope - 'subject' = CAST('{}' AS jsonb)
""")


def find_by_speaker(tx: Connection, tenant_id: UUID, name: str, rows_max: int) -> list[str]:
    """Return the subjects of memories whose speaker has this name, ignoring case and Unicode form.

    Args:
        name: The name in NFKC and lower case.
        rows_max: Maximum number of memories with a speaker that are compared, latest first.
    """
    values = {"tenant": tenant_id, "name": name, "rows_max": rows_max}
    return list(tx.execute(_BY_SPEAKER, values).scalars())


_BY_SPEAKER: Final = text("""
SELECT DISTINCT subject FROM (
  SELECT subject, speaker FROM memories
  WHERE tenant_id = :tenant AND subject IS NOT NULL AND speaker IS NOT NULL
  ORDER BY memory_id DESC LIMIT :rows_max
) AS said
WHERE :name = CASE WHEN octet_length(speaker) = length(speaker) THEN lower(speaker)
  ELSE lower(normalize(speaker, NFKC)) END
ORDER BY subject LIMIT 100
""")
