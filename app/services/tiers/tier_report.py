"""Report a tenant's tiers to operators: current counts, recent moves with their reasons, and a forecast."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, date, timedelta
from threading import Lock
from typing import Final
from uuid import UUID

from app.services.tenants import quota
from app.services.tenants.quota import QuotaUsage
from app.services.tiers import forecast, pca_fitting
from app.services.tiers.forecast import ForecastOptions, TierForecast
from app.services.tiers.pca_fitting import ReducedVectors
from app.store.core import database
from app.store.memories import tenant_counts
from app.store.memories.tenant_counts import TierCounts
from app.store.tiers import tier_moves
from app.store.tiers.tier_moves import DailyMoves

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
class TierReport:
    """The state of a tenant's tiers.

    Attributes:
        today: The current date (UTC, like the dates in `moved`).
        moved: Moves of the last `DAYS` days, by day.
    """

    counts: TierCounts
    room: QuotaUsage
    today: date
    moved: list[DailyMoves]


@dataclass(frozen=True)
class TierOutlook:
    """Data that is expensive to compute and therefore cached.

    Attributes:
        one_in: The forecast samples one memory out of this many; 1 for all.
        archive: PCA bases by which archived vectors are reduced.
    """

    outlook: TierForecast
    one_in: int
    archive: list[ReducedVectors]


def tier_report(tenant_id: UUID) -> TierReport:
    """Return the state of the tiers, read from counters only."""
    with database.tenant(tenant_id) as tx:
        today = database.now(tx).astimezone(UTC).date()
        counts = tenant_counts.read(tx, tenant_id)
        room = quota.get_usage(tx, tenant_id, counts)
        return TierReport(counts, room, today, tier_moves.list_since(tx, tenant_id, today - timedelta(days=DAYS - 1)))


list_latest_moves = database.in_tenant(tier_moves.list_latest)
"""Return a page of individual moves, latest first; see `store.tiers.tier_moves.list_latest`."""


@dataclass
class _Slot:
    lock: Lock = field(default_factory=Lock)
    at: float = 0.0
    found: TierOutlook | None = None


_slots: dict[UUID, _Slot] = {}
_slots_lock = Lock()


def cached_outlook(tenant_id: UUID) -> TierOutlook:
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
            slot.found, slot.at = _compute_outlook(tenant_id), time.monotonic()
        return slot.found


def _compute_outlook(tenant_id: UUID) -> TierOutlook:
    with database.tenant(tenant_id) as tx:
        memories = tenant_counts.read(tx, tenant_id).memories
    one_in = memories // SAMPLE if memories > SAMPLED_ABOVE else 1
    outlook = forecast.forecast_tiers(tenant_id, ForecastOptions(AHEAD_DAYS, one_in=one_in))
    return TierOutlook(outlook, one_in, pca_fitting.list_in_use(tenant_id))
