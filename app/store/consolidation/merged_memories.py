"""Read the facts that decide how memories are merged, and write the resulting rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
from sqlalchemy import Connection, text

from app.store.core.binary_arrays import Uuids, driver_connection, fetch_column


class LocalDate(NamedTuple):
    """A subject's local date, in days since 1970."""

    subject: str | None
    number: int


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """Facts that a caller supplied with an active memory.

    Attributes:
        said_at: `occurred_at`, or the acceptance time if absent, in seconds since 1970.
        day: The local date of `said_at`.
    """

    memory_id: UUID
    seq: int
    subject: str | None
    thread: str | None
    speaker: str | None
    kind: str | None
    text: str = field(repr=False)
    text_version: int
    tags: list[str]
    categories: list[str]
    entities: list[str]
    occurred_at: datetime | None
    said_at: float
    day: int
    source: str | None = None


def read_facts(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], time_zone: str) -> dict[UUID, MemoryFacts]:
    """Return the facts of the active memories among these that a caller sent, in ascending id order."""
    values = {"tenant": tenant_id, "ids": Uuids(memory_ids), "zone": time_zone}
    return {row[0]: MemoryFacts(*row) for row in driver_connection(tx).execute(_FACTS, values)}


_SAID_AT: Final = "coalesce(occurred_at, created_at)"
_SPEAKER: Final = "coalesce(speaker, role) AS speaker"
"""The speaker's name or, if it is missing, the role; both distinguish the sides of a conversation."""
_DAY: Final = f"(CAST({_SAID_AT} AT TIME ZONE %(zone)s AS date) - date '1970-01-01')"
_FACTS: Final = f"""
SELECT memory.* FROM unnest(%(ids)s) AS id
CROSS JOIN LATERAL (
  SELECT memory_id, seq, subject, thread, {_SPEAKER}, kind, text, text_version, tags, categories, entities,
    occurred_at, CAST(extract(epoch FROM {_SAID_AT}) AS float8), {_DAY}, source
  FROM memories
  WHERE tenant_id = %(tenant)s AND memory_id = id AND deleted_at IS NULL AND made_by = 'caller'
    AND (SELECT tier FROM memory_state AS state
      WHERE state.tenant_id = %(tenant)s AND state.memory_id = memories.memory_id) = 'active' OFFSET 0
) AS memory ORDER BY memory_id
"""  # noqa: S608 - constants only


def on_days(tx: Connection, tenant_id: UUID, days: Collection[LocalDate], time_zone: str) -> dict[LocalDate, int]:
    """Count the active memories sent by callers for each of these subjects and local days."""
    counts = dict.fromkeys(days, 0)
    for subjects, statement in (
        ([day.subject for day in counts if day.subject is not None], _ON_DAYS),
        ([None] if any(day.subject is None for day in counts) else [], _ON_DAYS_OF_NOBODY),
    ):
        if subjects:
            numbers = sorted({day.number for day in counts if (day.subject is None) == (subjects[0] is None)})
            values = {
                "tenant": tenant_id,
                "zone": time_zone,
                "days": numbers,
                "subjects": sorted({subject for subject in subjects if subject is not None}),
                # One extra day at each end covers every time zone.
                "first": numbers[0] - 1,
                "last": numbers[-1] + 2,
            }
            rows = driver_connection(tx).execute(statement, values)
            counts |= {day: count for subject, number, count in rows if (day := LocalDate(subject, number)) in counts}
    return counts


_ON: Final = f"""
SELECT subject, day, count(*) FROM (
  SELECT memory_id, subject, {_DAY} AS day FROM memories
  WHERE tenant_id = %(tenant)s AND {{whose}} AND deleted_at IS NULL AND made_by = 'caller'
    AND {_SAID_AT} >= timestamptz '1970-01-01 UTC' + make_interval(days => %(first)s)
    AND {_SAID_AT} < timestamptz '1970-01-01 UTC' + make_interval(days => %(last)s) OFFSET 0
) AS said
WHERE day = ANY (%(days)s) AND (
  SELECT tier FROM memory_state AS state
  WHERE state.tenant_id = %(tenant)s AND state.memory_id = said.memory_id) = 'active'
GROUP BY subject, day
"""  # noqa: S608 - constants only
_ON_DAYS: Final = _ON.format(whose="subject = ANY (%(subjects)s)")
_ON_DAYS_OF_NOBODY: Final = _ON.format(whose="subject IS NULL")


def find_merged_groups(tx: Connection, tenant_id: UUID, groups: Sequence[Mapping[UUID, int]]) -> dict[int, set[bool]]:
    """Return the groups that an earlier merge covers: the merge contains all of the group's memories in these versions.

    Rejected and undone merges count; a merge whose summary no longer exists doesn't count.

    Args:
        groups: Text versions by memory.

    Returns:
        The kinds of the covering merges by index of the group: True for links, False for summaries.
    """
    rows = [(n, memory_id, version) for n, group in enumerate(groups) for memory_id, version in group.items()]
    values = {
        "tenant": tenant_id,
        "numbers": [n for n, _, _ in rows],
        "ids": [memory_id for _, memory_id, _ in rows],
        "versions": [version for _, _, version in rows],
    }
    by_group: dict[int, set[bool]] = defaultdict(set)
    for n, is_link in driver_connection(tx).execute(_KNOWN, values):
        by_group[n].add(is_link)
    return by_group


_KNOWN: Final = """
WITH given AS MATERIALIZED (
  SELECT * FROM unnest(%(numbers)s::int[], %(ids)s::uuid[], %(versions)s::int[]) AS given (n, memory_id, text_version)
), dealt AS (
  SELECT n, merge_id, count(*) AS covered FROM given CROSS JOIN LATERAL (
    SELECT merge_id FROM lineage
    WHERE tenant_id = %(tenant)s AND lineage.memory_id = given.memory_id
      AND lineage.text_version = given.text_version OFFSET 0
  ) AS known GROUP BY n, merge_id
)
SELECT DISTINCT n, merge.action = 'link' FROM dealt
JOIN (SELECT n, count(*) AS members FROM given GROUP BY n) AS size USING (n)
CROSS JOIN LATERAL (
  SELECT action FROM merges
  WHERE tenant_id = %(tenant)s AND merges.merge_id = dealt.merge_id AND status <> 'gone' OFFSET 0
) AS merge
WHERE covered = members
"""


@dataclass(frozen=True, slots=True)
class NewSummary:
    """A summary to be inserted as a memory that decays from its creation."""

    memory_id: UUID
    seq: int
    subject: str | None
    thread: str | None
    kind: str | None
    text: str = field(repr=False)
    tags: list[str]
    categories: list[str]
    entities: list[str]
    occurred_at: datetime
    made_at: datetime
    salience: float
    keep_chance: float
    multiplier: float
    pace: float
    place: int
    policy_version: int
    source: str | None


def add_summaries(tx: Connection, tenant_id: UUID, summaries: Sequence[NewSummary]) -> None:
    """Insert summaries with their states."""
    rows = msgspec.json.encode(summaries).decode()
    tx.execute(_ADD_SUMMARIES, {"tenant": tenant_id, "rows": rows})


_ADD_SUMMARIES: Final = text("""
WITH given AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS given (
    memory_id uuid, seq bigint, subject text, thread text, kind text, text text, tags text[], categories text[],
    entities text[], occurred_at timestamptz, made_at timestamptz, salience real, keep_chance real, multiplier real,
    pace real,    place smallint, policy_version integer, source text)
), made AS (
  INSERT INTO memories (tenant_id, memory_id, seq, subject, thread, kind, text, tags, categories, entities,
    occurred_at, created_at, made_by, source)
  SELECT :tenant, memory_id, seq, subject, thread, kind, text, tags, categories, entities, occurred_at, made_at,
    'consolidation', source
  FROM given
)
INSERT INTO memory_state (tenant_id, memory_id, kind, salience, keep_chance, salience_source, multiplier, pace,
  created_at, accessed_at, anchored_at, policy_version)
SELECT :tenant, memory_id, place, salience, keep_chance, 'consolidation', multiplier, pace, made_at, made_at, made_at,
  policy_version
FROM given
""")


def deindex(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Mark memories as archived; the caller has locked their rows. A wanted tier below `archived` remains."""
    driver_connection(tx).execute(_PUT_AWAY, {"tenant": tenant_id, "ids": Uuids(memory_ids)})


_PUT_AWAY: Final = """
UPDATE memory_state SET tier = 'archived',
  wanted_tier = CASE wanted_tier WHEN 'active' THEN 'archived' ELSE wanted_tier END
WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)
"""


SUMMARISES: Final = "summarises"
SUPPORTS: Final = "supports"


class InsertedLink(NamedTuple):
    """A link to be inserted."""

    memory_id: UUID
    other_id: UUID
    kind: str
    weight: float


def add_links(tx: Connection, tenant_id: UUID, links: Iterable[InsertedLink]) -> None:
    """Insert links made by consolidation; existing links remain unchanged."""
    ordered = sorted(links)
    values = {
        "tenant": tenant_id,
        "from_ids": [link.memory_id for link in ordered],
        "to_ids": [link.other_id for link in ordered],
        "kinds": [link.kind for link in ordered],
        "weights": [link.weight for link in ordered],
    }
    driver_connection(tx).execute(_ADD_LINKS, values)


_ADD_LINKS: Final = """
INSERT INTO links (tenant_id, memory_id, other_id, kind, weight, source)
SELECT %(tenant)s, memory_id, other_id, kind, weight, 'consolidation'
FROM unnest(%(from_ids)s::uuid[], %(to_ids)s::uuid[], %(kinds)s::text[], %(weights)s::float8[])
  AS given (memory_id, other_id, kind, weight)
ON CONFLICT DO NOTHING
"""


def remove_links(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Delete the links among these memories that consolidation made."""
    driver_connection(tx).execute(_REMOVE_LINKS, {"tenant": tenant_id, "ids": Uuids(memory_ids)})


_REMOVE_LINKS: Final = """
DELETE FROM links WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND other_id = ANY (%(ids)s)
  AND source = 'consolidation'
"""


@dataclass(frozen=True, slots=True)
class PresentMemory:
    """A memory of any tier that isn't deleted. A memory in cold storage has the truncated text of its database row."""

    memory_id: UUID
    text: str = field(repr=False)
    text_version: int
    speaker: str | None
    subject: str | None
    categories: list[str]
    said_at: float
    source: str | None
    tier: str


def list_present(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[PresentMemory]:
    """Return these memories in id order; deleted memories are omitted."""
    rows = driver_connection(tx).execute(_PRESENT, {"tenant": tenant_id, "ids": Uuids(memory_ids)})
    return [PresentMemory(*row) for row in rows]


_PRESENT: Final = f"""
SELECT memory.*, (
  SELECT tier FROM memory_state AS state WHERE state.tenant_id = %(tenant)s AND state.memory_id = memory.memory_id)
FROM unnest(%(ids)s) AS id CROSS JOIN LATERAL (
  SELECT memory_id, text, text_version, {_SPEAKER}, subject, categories,
    CAST(extract(epoch FROM {_SAID_AT}) AS float8), source
  FROM memories
  WHERE tenant_id = %(tenant)s AND memory_id = id AND deleted_at IS NULL OFFSET 0
) AS memory ORDER BY memory_id
"""  # noqa: S608 - constants only


def read_hidden_summary(tx: Connection, tenant_id: UUID, summary_id: UUID) -> list[PresentMemory]:
    """Return a hidden summary in a list, or an empty list if it isn't hidden.

    A summary hidden by an open erasure has the tier `hidden` if it was active, otherwise its former tier. A summary
    that is only hidden until it is refreshed has the tier `aside`.
    """
    rows = driver_connection(tx).execute(_HIDDEN, {"tenant": tenant_id, "id": summary_id, "aside": SET_ASIDE})
    return [PresentMemory(*row) for row in rows]


_HIDDEN: Final = f"""
SELECT memory_id, text, text_version, speaker, subject, categories, CAST(extract(epoch FROM {_SAID_AT}) AS float8),
  source, CASE WHEN erasure_id = %(aside)s THEN 'aside' WHEN tier = 'active' THEN 'hidden' ELSE tier END
FROM memories JOIN hidden_memories AS hidden USING (tenant_id, memory_id)
WHERE tenant_id = %(tenant)s AND memory_id = %(id)s
"""  # noqa: S608 - constants only


SET_ASIDE: Final = UUID(int=0)
"""Placeholder erasure id that hides a summary until it is refreshed from its remaining sources."""


def with_sources(tx: Connection, tenant_id: UUID, summary_ids: Sequence[UUID], without: Sequence[UUID]) -> list[UUID]:
    """Return the active summaries among these that have an existing source not in `without`, in id order."""
    return fetch_column(tx, _WITH_SOURCES, {"tenant": tenant_id, "ids": Uuids(summary_ids), "without": Uuids(without)})


_WITH_SOURCES: Final = """
SELECT memory_id FROM memory_state AS state
WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND tier = 'active' AND EXISTS (
  SELECT FROM merges CROSS JOIN LATERAL (
    SELECT memory_id FROM lineage
    WHERE lineage.tenant_id = %(tenant)s AND lineage.merge_id = merges.merge_id AND part = 'source'
      AND lineage.memory_id <> ALL (%(without)s) OFFSET 0
  ) AS source CROSS JOIN LATERAL (
    SELECT FROM memories
    WHERE memories.tenant_id = %(tenant)s AND memories.memory_id = source.memory_id AND deleted_at IS NULL OFFSET 0
  ) AS there
  WHERE merges.tenant_id = %(tenant)s AND merges.summary_id = state.memory_id AND merges.status = 'done')
ORDER BY memory_id
"""


def filter_summaries(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> set[UUID]:
    """Return the ids of the memories among these that consolidation created."""
    return set(fetch_column(tx, _SUMMARIES, {"tenant": tenant_id, "ids": Uuids(memory_ids)}))


_SUMMARIES: Final = """
SELECT memory_id FROM memories
WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND made_by = 'consolidation'
"""
