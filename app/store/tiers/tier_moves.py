"""How many memories have moved each day, and why: counters, and the last moves one by one.

A transaction that moves memories adds to its counters once, late, before it enters the audit.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Final, Literal, NamedTuple
from uuid import UUID

from sqlalchemy import Connection

from app.store.core.packed import driver

Move = Literal["archived", "cold", "deleted", "hidden", "expired", "merged", "restored"]
"""`merged` is archived as a source of a summary; `hidden` is to be erased, and `deleted` is gone."""

Counted = Mapping[tuple[Move, str], int]
"""How many memories by move and rule, a fixed word."""


class Day(NamedTuple):
    """How many memories have moved on a day of UTC, by a rule."""

    day: date
    move: Move
    rule: str
    memories: int


def add(tx: Connection, tenant_id: UUID, counted: Counted) -> None:
    """Count what a transaction moves, the rows in one order, so that no two wait for each other."""
    found = sorted((move, rule, memories) for (move, rule), memories in counted.items() if memories)
    if found:
        moves, rules, memories = zip(*found, strict=True)
        values = {"tenant": tenant_id, "moves": list(moves), "rules": list(rules), "memories": list(memories)}
        driver(tx).execute(_ADD, values)


_ADD: Final = """
INSERT INTO tier_moves AS known (tenant_id, day, move, rule, memories)
SELECT %(tenant)s, CAST(now() AT TIME ZONE 'UTC' AS date), move, rule, memories
FROM unnest(%(moves)s::text[], %(rules)s::text[], %(memories)s::bigint[]) AS given (move, rule, memories)
ORDER BY move, rule
ON CONFLICT (tenant_id, day, move, rule) DO UPDATE SET memories = known.memories + excluded.memories
"""


def since(tx: Connection, tenant_id: UUID, first: date) -> list[Day]:
    """What has moved from this day on, by day, move and rule."""
    return [Day(*row) for row in driver(tx).execute(_SINCE, {"tenant": tenant_id, "first": first})]


_SINCE: Final = """
SELECT day, move, rule, memories FROM tier_moves
WHERE tenant_id = %(tenant)s AND day >= %(first)s ORDER BY day, move, rule
"""


class Moved(NamedTuple):
    """A move of a memory that is still there.

    Attributes:
        place: Among those of the same moment.
        kind: `tier`, or `restored` by a use or by hand.
        before: The tier that it left, as its place in `DECAY_TIERS`.
        after: The one that it came to.
        strength: Its strength then, 0 to 1.
        merge_id: The merge that took it or gave it back, where that was why.
    """

    memory_id: UUID
    at: datetime
    place: int
    kind: str
    before: int
    after: int
    strength: float
    merge_id: UUID | None


def latest(tx: Connection, tenant_id: UUID, older_than: tuple[datetime, int] | None, limit: int) -> list[Moved]:
    """The last moves, the newest first, after the one given by its moment and place."""
    at, place = older_than or (None, None)
    values = {"tenant": tenant_id, "at": at, "place": place, "limit": limit}
    return [Moved(*row) for row in driver(tx).execute(_LATEST, values)]


_LATEST: Final = """
SELECT moved.memory_id, moved.at, moved.event_id, moved.kind, CAST(moved.before AS int), CAST(moved.after AS int),
  moved.strength, merge.merge_id
FROM (
  SELECT memory_id, at, event_id, kind, before, after, strength FROM memory_events
  WHERE tenant_id = %(tenant)s AND kind IN ('tier', 'restored')
    AND (%(at)s::timestamptz IS NULL OR (at, event_id) < (%(at)s::timestamptz, %(place)s::bigint))
  ORDER BY at DESC, event_id DESC LIMIT %(limit)s
) AS moved
LEFT JOIN LATERAL (
  SELECT lineage.merge_id FROM lineage JOIN merges USING (tenant_id, merge_id)
  WHERE moved.kind = 'tier' AND lineage.tenant_id = %(tenant)s AND lineage.memory_id = moved.memory_id
    AND lineage.part = 'source' AND (
      moved.at IN (merges.created_at, merges.decided_at)
      -- By its undoing, or by somebody's yes before that: when that was isn't kept.
      OR (merges.status = 'undone' AND moved.at BETWEEN merges.created_at AND merges.decided_at))
  ORDER BY moved.at = merges.created_at DESC, merges.decided_at LIMIT 1
) AS merge ON true
ORDER BY moved.at DESC, moved.event_id DESC
"""


def purge(tx: Connection, tenant_id: UUID, before: datetime, limit: int) -> int:
    """Delete the counters of days before this moment. Returns how many; call again until fewer than the limit."""
    return driver(tx).execute(_PURGE, {"tenant": tenant_id, "before": before, "limit": limit}).rowcount


_PURGE: Final = """
DELETE FROM tier_moves WHERE tenant_id = %(tenant)s AND (day, move, rule) IN (
  SELECT day, move, rule FROM tier_moves
  WHERE tenant_id = %(tenant)s AND day < CAST(%(before)s AT TIME ZONE 'UTC' AS date) LIMIT %(limit)s)
"""
