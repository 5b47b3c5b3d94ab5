"""Compute the forgetting curve of one memory, past and future, with the formulas that the service applies."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from app.domain.strength import strength_history
from app.domain.strength.strength_history import HistoryEntry, KnownHistory, StrengthHistory
from app.domain.tiers.decay_tier import TierThresholds
from app.errors import NotFound
from app.services.strength import memory_strength
from app.store.core import database
from app.store.memories import history
from app.store.memories.history import HistoryEvent
from app.store.memories.memories import StoredMemory
from app.store.strength import states

AHEAD_DAYS: Final = 90
ENTRIES_MAX: Final = 1_000
"""Maximum number of history entries read, newest first."""


@dataclass(frozen=True, slots=True)
class DrawnCurve:
    """A strength curve and the data that it was computed from.

    Attributes:
        happened: The newest entries of the memory's history, newest first.
        tiers: Tier parameters of the policy in force.
    """

    course: StrengthHistory
    happened: list[HistoryEvent]
    tiers: TierThresholds


def draw_curve(tenant_id: UUID, memory: StoredMemory, days: int = AHEAD_DAYS) -> DrawnCurve:
    """Return the curve of a memory's strength, from its recorded past until `days` from now.

    Raises:
        NotFound: The memory has been deleted.
    """
    with database.tenant(tenant_id) as tx:
        stored = states.read(tx, tenant_id, [memory.memory_id])
        happened = history.list_events(tx, tenant_id, memory.memory_id, None, ENTRIES_MAX)
        times = memory_strength.load_timeline(tx, tenant_id)
        as_of = database.now(tx)
    if not stored.ids:
        raise NotFound("Memory not found")
    policy = times.at(as_of.timestamp()).policy
    history_start = as_of - timedelta(days=policy.history_days)
    known = KnownHistory(
        stored.state,
        int(stored.versions[0]),
        memory.created_at.timestamp(),
        [HistoryEntry(entry.at.timestamp(), *entry[1:]) for entry in happened],
        is_whole=len(happened) < ENTRIES_MAX and memory.created_at > history_start,
    )
    until = (as_of + timedelta(days=days)).timestamp()
    return DrawnCurve(
        strength_history.compute_history(known, times, as_of.timestamp(), until), happened, policy.thresholds
    )
