"""Store a tenant's decay clock, and the activation of its memories at each tick."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np
from sqlalchemy import Connection, text

from app.domain.dynamics.ops import Floats
from app.store.core.binary_arrays import Doubles, Longs, Uuids, driver_connection


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


class Snapshots(NamedTuple):
    """Activation of memories at ticks; every array has shape (n,), in the order of `ids`."""

    ids: Sequence[UUID]
    ticks: Sequence[int]
    storage: Floats
    retrieval: Floats
    stability: Floats


class HistoryPoint(NamedTuple):
    """Activation of one memory after a tick."""

    tick: int
    storage: float
    retrieval: float
    stability: float
    recorded_at: datetime


class TickAverages(NamedTuple):
    """Averages over the memories with a snapshot at a tick; `at_risk` counts those with a retrieval below 0.3."""

    tick: int
    retrieval: float
    storage: float
    stability: float
    at_risk: int


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


def add_snapshots(tx: Connection, tenant_id: UUID, taken: Snapshots) -> None:
    """Store snapshots; a later snapshot of the same memory and tick replaces the earlier one."""
    if not taken.ids:
        return
    values = {
        "tenant": tenant_id,
        "ids": Uuids(taken.ids),
        "ticks": Longs(np.asarray(taken.ticks, np.int64)),
        "storage": Doubles(taken.storage),
        "retrieval": Doubles(taken.retrieval),
        "stability": Doubles(taken.stability),
    }
    driver_connection(tx).execute(_ADD_SNAPSHOTS, values)


_ADD_SNAPSHOTS: Final = """
INSERT INTO activation_history (tenant_id, memory_id, tick, storage, retrieval, stability)
SELECT %(tenant)s, memory_id, tick, storage, retrieval, stability
FROM unnest(%(ids)s, %(ticks)s, %(storage)s, %(retrieval)s, %(stability)s)
  AS given (memory_id, tick, storage, retrieval, stability)
ON CONFLICT (tenant_id, memory_id, tick) DO UPDATE SET storage = excluded.storage, retrieval = excluded.retrieval,
  stability = excluded.stability, recorded_at = excluded.recorded_at
"""


def delete_before(tx: Connection, tenant_id: UUID, tick: int) -> None:
    """Delete the snapshots of ticks before this one."""
    tx.execute(_DELETE_BEFORE, {"tenant": tenant_id, "tick": tick})


_DELETE_BEFORE: Final = text("DELETE FROM activation_history WHERE tenant_id = :tenant AND tick < :tick")


def delete_all(tx: Connection, tenant_id: UUID) -> None:
    """Delete all snapshots."""
    tx.execute(_DELETE_ALL, {"tenant": tenant_id})


_DELETE_ALL: Final = text("DELETE FROM activation_history WHERE tenant_id = :tenant")


def list_history(
    tx: Connection, tenant_id: UUID, memory_id: UUID, first: int | None, last: int | None
) -> list[HistoryPoint]:
    """Return a memory's snapshots in the order of ticks, optionally only from `first` and up to `last`."""
    values = {"tenant": tenant_id, "memory": memory_id, "first": first, "last": last}
    return [HistoryPoint(*row) for row in tx.execute(_HISTORY, values)]


_HISTORY: Final = text("""
SELECT tick, storage, retrieval, stability, recorded_at FROM activation_history
WHERE tenant_id = :tenant AND memory_id = :memory
  AND (CAST(:first AS bigint) IS NULL OR tick >= :first) AND (CAST(:last AS bigint) IS NULL OR tick <= :last)
ORDER BY tick
""")


def list_averages(tx: Connection, tenant_id: UUID, limit: int) -> list[TickAverages]:
    """Return the averages of the newest ticks, in the order of ticks; hidden memories count no more."""
    rows = [TickAverages(*row) for row in tx.execute(_AVERAGES, {"tenant": tenant_id, "limit": limit})]
    return rows[::-1]


_AVERAGES: Final = text("""
SELECT tick, avg(past.retrieval), avg(past.storage), avg(past.stability), count(*) FILTER (WHERE past.retrieval < 0.3)
FROM activation_history AS past
JOIN memories AS memory ON memory.tenant_id = past.tenant_id AND memory.memory_id = past.memory_id
WHERE past.tenant_id = :tenant AND memory.deleted_at IS NULL
GROUP BY tick ORDER BY tick DESC LIMIT :limit
""")
