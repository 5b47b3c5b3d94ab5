"""Show operators the tiers: current counts, recent moves with their reasons, and a forecast."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from threading import Lock
from typing import Final
from uuid import UUID

from app.services.tenants import quota
from app.services.tenants.quota import Room
from app.services.tiers import bases, forecast
from app.services.tiers.bases import Reduced
from app.services.tiers.forecast import Outlook, Wish
from app.store.core import database
from app.store.core.paging import Page
from app.store.memories import tenant_counts
from app.store.memories.tenant_counts import Counts
from app.store.tiers import tier_moves
from app.store.tiers.tier_moves import Day, Moved

DAYS: Final = 30
"""Number of days of moves shown, including today."""
AHEAD_DAYS: Final = 90
FRESH_SECONDS: Final = 300.0
"""Maximum age of a process's cached forecast."""
SAMPLED_ABOVE: Final = 200_000
"""Number of memories above which the forecast uses a sample."""
SAMPLE: Final = 100_000
"""Approximate minimum size of the sample."""
_KEPT: Final = 100


@dataclass(frozen=True)
class Ladder:
    """The state of a tenant's tiers.

    Attributes:
        today: In UTC, like all days of moves.
        moved: Moves of the last `DAYS` days.
    """

    counts: Counts
    room: Room
    today: date
    moved: list[Day]


@dataclass(frozen=True)
class Ahead:
    """Data that is expensive to compute and therefore cached.

    Attributes:
        one_in: The forecast samples one memory out of this many; 1 for all.
        archive: Bases of the archived vectors.
    """

    outlook: Outlook
    one_in: int
    archive: list[Reduced]


def tier_report(tenant_id: UUID) -> Ladder:
    """Return the state of the tiers, read from counters only."""
    with database.tenant(tenant_id) as tx:
        today = database.now(tx).astimezone(UTC).date()
        counts = tenant_counts.read(tx, tenant_id)
        room = quota.get_usage(tx, tenant_id, counts)
        return Ladder(counts, room, today, tier_moves.since(tx, tenant_id, today - timedelta(days=DAYS - 1)))


def latest(tenant_id: UUID, older_than: tuple[datetime, int] | None, limit: int) -> Page[Moved]:
    """Return a page of individual moves, latest first; see `store.tier_moves.latest`."""
    with database.tenant(tenant_id) as tx:
        return tier_moves.latest(tx, tenant_id, older_than, limit)


@dataclass
class _Slot:
    lock: Lock = field(default_factory=Lock)
    at: float = 0.0
    found: Ahead | None = None


_slots: dict[UUID, _Slot] = {}
_slots_lock = Lock()


def ahead(tenant_id: UUID) -> Ahead:
    """Return the forecast and the archive's bases, cached for `FRESH_SECONDS` and computed once for concurrent callers.

    Raises:
        Invalid: The forecast reaches too far.
    """
    with _slots_lock:
        if len(_slots) >= _KEPT and tenant_id not in _slots:
            _slots.clear()
        slot = _slots.setdefault(tenant_id, _Slot())
    with slot.lock:
        if slot.found is None or time.monotonic() - slot.at > FRESH_SECONDS:
            slot.found, slot.at = _ahead(tenant_id), time.monotonic()
        return slot.found


def _ahead(tenant_id: UUID) -> Ahead:
    with database.tenant(tenant_id) as tx:
        memories = tenant_counts.read(tx, tenant_id).memories
    one_in = memories // SAMPLE if memories > SAMPLED_ABOVE else 1
    outlook = forecast.forecast_tiers(tenant_id, Wish(AHEAD_DAYS, one_in=one_in))
    return Ahead(outlook, one_in, bases.in_use(tenant_id))
