"""What happened to memories, in numbers alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection

from app.store.packed import Doubles, Longs, Moments, Uuids, driver

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
    "decay_tier",
    "tier",
    "promoted",
    "restored",
]


class Change(NamedTuple):
    """What an event tells of each memory: numbers of shape (n,), or one for all.

    Uses, tests and reviews tell strengths; the others the number that changed: a tier as its place in `DECAY_TIERS`,
    a kind as its place in `KINDS`, an associate's stability.

    Attributes:
        at: When, in seconds since 1970.
        before: The number before.
        after: The number after.
        strength: Strength after it, 0 to 1.
        sessions: Digest of the session that a use came from; None for none.
    """

    at: npt.ArrayLike
    before: npt.ArrayLike
    after: npt.ArrayLike
    strength: npt.ArrayLike
    sessions: npt.NDArray[np.int64] | None = None


def add(tx: Connection, tenant_id: UUID, kind: EventKind, memory_ids: Sequence[UUID], change: Change) -> None:
    """Enter one event of a kind for each of these memories."""
    if not memory_ids:
        return
    shape = (len(memory_ids),)
    values: dict[str, Any] = {
        "tenant": tenant_id,
        "kind": kind,
        "ids": Uuids(memory_ids),
        "at": Moments(np.broadcast_to(np.asarray(change.at, np.float64), shape)),
        "sessions": None if change.sessions is None else Longs(change.sessions),
    }
    for name in ("before", "after", "strength"):
        # What is nearer to 0 than a `real` can be would be refused.
        column = np.broadcast_to(np.asarray(getattr(change, name), np.float64), shape)
        values[name] = Doubles(np.where(np.abs(column) < _REAL_MIN, 0, column))
    driver(tx).execute(_ADD, values)


_REAL_MIN: Final = 1e-37

_ADD: Final = """
INSERT INTO memory_events (tenant_id, memory_id, at, kind, before, after, strength, session)
SELECT %(tenant)s, memory_id, at, %(kind)s, before, after, strength, session
FROM unnest(%(ids)s, %(at)s, %(before)s, %(after)s, %(strength)s, %(sessions)s::int8[])
  AS given (memory_id, at, before, after, strength, session)
"""
