"""Count tier moves per day by reason, and list the latest moves.

A transaction that moves memories updates its counters once, late, just before it appends to the audit log.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Final, Literal, NamedTuple
from uuid import UUID

from sqlalchemy import Connection

from app.store.core.binary_arrays import driver_connection
from app.store.core.paging import Page, page_of

Move = Literal["archived", "cold", "deleted", "hidden", "expired", "merged", "restored"]
"""`merged`: archived as a source of a summary; `hidden`: awaiting erasure; `deleted`: permanently removed."""

Counted = Mapping[tuple[Move, str], int]
"""Number of memories by move and rule; the rule is a fixed word."""


class DailyMoves(NamedTuple):
    """Number of memories moved by a rule on a UTC day."""

    day: date
    move: Move
    rule: str
    memories: int


def add(tx: Connection, tenant_id: UUID, counted: Counted) -> None:
    """Add a transaction's moves to the counters."""
    if values := ordered(counted):
        driver_connection(tx).execute(ADD, {"tenant": tenant_id, **values})


def ordered(counted: Counted) -> dict[str, list[str] | list[int]]:
    """Return the parameters of `ADD`, in a fixed row order to avoid deadlocks; empty if nothing was moved."""
    rows = sorted((move, rule, memories) for (move, rule), memories in counted.items() if memories)
    if not rows:
        return {}
    moves, rules, memories = zip(*rows, strict=True)
    return {"moves": list(moves), "rules": list(rules), "memories": list(memories)}


ADD: Final = """
INSERT INTO tier_moves AS known (tenant_id, day, move, rule, memories)
SELECT %(tenant)s, CAST(now() AT TIME ZONE 'UTC' AS date), move, rule, memories
FROM unnest(%(moves)s::text[], %(rules)s::text[], %(memories)s::bigint[]) AS given (move, rule, memories)
ORDER BY move, rule
ON CONFLICT (tenant_id, day, move, rule) DO UPDATE SET memories = known.memories + excluded.memories
"""


def list_since(tx: Connection, tenant_id: UUID, first: date) -> list[DailyMoves]:
    """Return the moves since this day, by day, move and rule."""
    return [DailyMoves(*row) for row in driver_connection(tx).execute(_SINCE, {"tenant": tenant_id, "first": first})]


_SINCE: Final = """
SELECT day, move, rule, memories FROM tier_moves
WHERE tenant_id = %(tenant)s AND day >= %(first)s ORDER BY day, move, rule
"""


class TierMove(NamedTuple):
    """A tier move of a memory that still exists.

    Attributes:
        place: Order among moves with the same time.
        kind: `tier`, or `restored` by a use or manually.
        before: The old tier, as an index in `DECAY_TIERS`.
        after: The new tier, as an index in `DECAY_TIERS`.
        strength: Strength at the time, 0 to 1.
        merge_id: The merge that archived or restored it, if that was the reason.
    """

    memory_id: UUID
    at: datetime
    place: int
    kind: str
    before: int
    after: int
    strength: float
    merge_id: UUID | None


def list_latest(tx: Connection, tenant_id: UUID, older_than: tuple[datetime, int] | None, limit: int) -> Page[TierMove]:
    """Return the latest moves, newest first, starting after the given time and place."""
    at, place = older_than or (None, None)
    values = {"tenant": tenant_id, "at": at, "place": place, "limit": limit}
    rows = [TierMove(*row) for row in driver_connection(tx).execute(_LATEST, values)]
    return page_of(rows, limit, lambda row: (row.at, row.place))


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
      -- By undoing the merge, or by its approval before that: the time of approval isn't stored.
      OR (merges.status = 'undone' AND moved.at BETWEEN merges.created_at AND merges.decided_at))
  ORDER BY moved.at = merges.created_at DESC, merges.decided_at LIMIT 1
) AS merge ON true
ORDER BY moved.at DESC, moved.event_id DESC
"""
