"""Store a tenant's decay clock, and averages over its memories at each tick."""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, text

from app.store.core.binary_arrays import Doubles, Integers, Longs, driver_connection


class DecayClock(NamedTuple):
    """A tenant's decay clock.

    Attributes:
        tick: Number of completed ticks since the clock was created or reset.
        ticked_at: Time of the last call that completed a tick, or of the creation or the reset.
        interval_seconds: Seconds of real time that `auto-tick` counts as a tick.
    """

    tick: int
    ticked_at: datetime
    interval_seconds: float


class TickAverages(NamedTuple):
    """Averages over all memories after a tick; `at_risk` counts those whose retrieval is low."""

    tick: int
    storage: float
    retrieval: float
    stability: float
    at_risk: int
    recorded_at: datetime


def read(tx: Connection, tenant_id: UUID, *, locked: bool = False) -> DecayClock | None:
    """Return the tenant's clock, with its row locked if `locked`; None if it has none."""
    row = tx.execute(_READ_LOCKED if locked else _READ, {"tenant": tenant_id}).one_or_none()
    return None if row is None else DecayClock(*row)


_COLUMNS: Final = "SELECT tick, ticked_at, interval_seconds FROM decay_clocks WHERE tenant_id = :tenant"
_READ: Final = text(_COLUMNS)
_READ_LOCKED: Final = text(f"{_COLUMNS} FOR UPDATE")


def insert(tx: Connection, tenant_id: UUID, interval_seconds: float) -> None:
    """Create the tenant's clock at tick 0, unless it has one."""
    tx.execute(_INSERT, {"tenant": tenant_id, "interval": interval_seconds})


_INSERT: Final = text("""
INSERT INTO decay_clocks (tenant_id, interval_seconds) VALUES (:tenant, :interval) ON CONFLICT DO NOTHING
""")


def set_tick(tx: Connection, tenant_id: UUID, tick: int, ticked_at: datetime) -> None:
    """Set the clock."""
    tx.execute(_SET_TICK, {"tenant": tenant_id, "tick": tick, "at": ticked_at})


_SET_TICK: Final = text("UPDATE decay_clocks SET tick = :tick, ticked_at = :at WHERE tenant_id = :tenant")


def set_interval(tx: Connection, tenant_id: UUID, interval_seconds: float) -> None:
    """Set the seconds of real time that count as a tick."""
    tx.execute(_SET_INTERVAL, {"tenant": tenant_id, "interval": interval_seconds})


_SET_INTERVAL: Final = text("UPDATE decay_clocks SET interval_seconds = :interval WHERE tenant_id = :tenant")


def add_averages(
    tx: Connection, tenant_id: UUID, first_tick: int, sums: npt.NDArray[np.float64], memories: int
) -> None:
    """Store the averages of consecutive ticks.

    Args:
        first_tick: The first of these ticks.
        sums: Sums of storage, retrieval and stability, and the number at risk, over all memories; shape (ticks, 4).
        memories: Number of memories; without any, nothing is stored.
    """
    if not memories:
        return
    averages = sums / [memories, memories, memories, 1]
    values = {
        "tenant": tenant_id,
        "ticks": Longs(np.arange(first_tick, first_tick + len(sums))),
        "storage": Doubles(averages[:, 0]),
        "retrieval": Doubles(averages[:, 1]),
        "stability": Doubles(averages[:, 2]),
        "at_risk": Integers(averages[:, 3]),
    }
    driver_connection(tx).execute(_ADD_AVERAGES, values)


_ADD_AVERAGES: Final = """
INSERT INTO tick_averages (tenant_id, tick, storage, retrieval, stability, at_risk)
SELECT %(tenant)s, tick, storage, retrieval, stability, at_risk
FROM unnest(%(ticks)s, %(storage)s, %(retrieval)s, %(stability)s, %(at_risk)s)
  AS given (tick, storage, retrieval, stability, at_risk)
ON CONFLICT DO NOTHING
"""


def list_averages(tx: Connection, tenant_id: UUID) -> list[TickAverages]:
    """Return the averages of all ticks that are retained, in order."""
    return [TickAverages(*row) for row in tx.execute(_AVERAGES, {"tenant": tenant_id})]


_AVERAGES: Final = text("""
SELECT tick, storage, retrieval, stability, at_risk, recorded_at FROM tick_averages
WHERE tenant_id = :tenant ORDER BY tick
""")


def delete_averages(tx: Connection, tenant_id: UUID, before: int | None = None) -> None:
    """Delete the averages of ticks before this one, or of all ticks."""
    tx.execute(_DELETE_AVERAGES, {"tenant": tenant_id, "before": before})


_DELETE_AVERAGES: Final = text("""
DELETE FROM tick_averages WHERE tenant_id = :tenant AND (CAST(:before AS bigint) IS NULL OR tick < :before)
""")
