"""Store the history of memories as numbers only, without content."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, text

from app.store.core.binary_arrays import Doubles, Longs, Timestamps, Uuids, driver_connection
from app.store.core.paging import Page, page_of

EventKind = Literal[
    "use",
    "late_use",
    "associate",
    "test",
    "review_passed",
    "review_failed",
    "salience",
    "kind",
    "multiplier",
    "pace",
    "wanted_tier",
    "tier",
    "promoted",
    "demoted",
    "restored",
]


class EventChange(NamedTuple):
    """Numeric values of one event per memory: arrays of shape (n,), or one value for all.

    Uses, tests and reviews record strengths. Other events record the changed value: a tier as its index in
    `DECAY_TIERS`, a memory kind as its index in `KINDS`, an associated memory's stability.

    Attributes:
        at: Event time in seconds since 1970.
        before: The value before the event.
        after: The value after the event.
        strength: Strength after the event, 0 to 1.
        sessions: Digests of the sessions in which the uses happened, shape (n,); None for events without a session.
    """

    at: npt.ArrayLike
    before: npt.ArrayLike
    after: npt.ArrayLike
    strength: npt.ArrayLike
    sessions: npt.NDArray[np.int64] | None = None


def add(tx: Connection, tenant_id: UUID, kind: EventKind, memory_ids: Sequence[UUID], change: EventChange) -> None:
    """Insert one event of this kind for each memory."""
    if not memory_ids:
        return
    shape = (len(memory_ids),)
    values: dict[str, Any] = {
        "tenant": tenant_id,
        "kind": kind,
        "ids": Uuids(memory_ids),
        "at": Timestamps(np.broadcast_to(np.asarray(change.at, np.float64), shape)),
        "sessions": None if change.sessions is None else Longs(change.sessions),
    }
    for name in ("before", "after", "strength"):
        # PostgreSQL rejects values that are too small for a `real`.
        column = np.broadcast_to(np.asarray(getattr(change, name), np.float64), shape)
        values[name] = Doubles(np.where(np.abs(column) < _REAL_MIN, 0, column))
    driver_connection(tx).execute(_ADD, values)


_REAL_MIN: Final = 1e-37

_ADD: Final = """
INSERT INTO memory_events (tenant_id, memory_id, at, kind, before, after, strength, session)
SELECT %(tenant)s, memory_id, at, %(kind)s, before, after, strength, session
FROM unnest(%(ids)s, %(at)s, %(before)s, %(after)s, %(strength)s, %(sessions)s::int8[])
  AS given (memory_id, at, before, after, strength, session)
"""


class HistoryEvent(NamedTuple):
    """One entry of a memory's history.

    Attributes:
        place: Sequence number that orders entries with the same time.
        kind: An `EventKind`, or `accepted`, or `policy` for a policy version that took effect.
        before: The value before the event; for a policy, the version before it.
        after: The value after the event; for a policy, its version.
        strength: Strength after the event, 0 to 1; None for `accepted` and `policy`.
    """

    at: datetime
    place: int
    kind: str
    before: float | None
    after: float | None
    strength: float | None


def list_events(
    tx: Connection, tenant_id: UUID, memory_id: UUID, older_than: tuple[datetime, int] | None, limit: int
) -> Page[HistoryEvent]:
    """Return a page of a memory's history, newest first, including its acceptance and the policies in effect since.

    The result is empty for deleted memories.

    Args:
        older_than: `at` and `place` of the previous page's last entry.
    """
    at, place = older_than or (None, None)
    values = {"tenant": tenant_id, "memory_id": memory_id, "at": at, "place": place, "limit": limit}
    rows = [HistoryEvent(*row) for row in tx.execute(_PAGE, values)]
    return page_of(rows, limit, lambda row: (row.at, row.place))


# Entries with equal times are ordered: acceptance, policies by version, then events in order of insertion.
_PAGE: Final = text("""
WITH memory AS (
  SELECT created_at FROM memories
  WHERE tenant_id = :tenant AND memory_id = :memory_id AND deleted_at IS NULL
), happened AS (
  SELECT at, event_id + 4294967296 AS place, kind, before, after, strength
  FROM memory_events WHERE tenant_id = :tenant AND memory_id = :memory_id
  UNION ALL
  SELECT effective_at, version, 'policy', coalesce((
      SELECT max(earlier.version) FROM policies AS earlier
      WHERE earlier.tenant_id = :tenant AND earlier.version < policy.version
        AND earlier.effective_at <= policy.effective_at
    ), 0), version, NULL
  FROM policies AS policy
  WHERE tenant_id = :tenant AND effective_at > (SELECT created_at FROM memory) AND effective_at <= now()
    AND NOT EXISTS (
      SELECT FROM policies AS later
      WHERE later.tenant_id = :tenant AND later.version > policy.version
        AND later.effective_at <= policy.effective_at
    )
  UNION ALL
  SELECT created_at, 0, 'accepted', NULL, NULL, NULL FROM memory
)
SELECT at, place, kind, before, after, strength FROM happened
WHERE EXISTS (SELECT FROM memory)
  AND (CAST(:at AS timestamptz) IS NULL OR (at, place) < (CAST(:at AS timestamptz), CAST(:place AS bigint)))
ORDER BY at DESC, place DESC LIMIT :limit
""")
