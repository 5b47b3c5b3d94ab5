"""Store the states from which a memory's activation at each tick follows: its first one, and one per change."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, text

from app.domain.dynamics.ops import Floats
from app.store.core.binary_arrays import Doubles, Integers, Longs, Uuids, driver_connection


class TickAnchors(NamedTuple):
    """States of memories after a tick; every array has shape (n,), in the order of `ids`.

    Attributes:
        ticks: From the tick after this one on, the activation follows from this state.
        salience: 0 to 1.
        kinds: Indexes in `KINDS`.
        versions: The policy version that applies from this tick on.
    """

    ids: Sequence[UUID]
    ticks: npt.NDArray[np.int64]
    storage: Floats
    retrieval: Floats
    stability: Floats
    salience: Floats
    kinds: Floats
    versions: npt.NDArray[np.int64]


class TickAnchor(NamedTuple):
    """A state of one memory; `is_shown` if the memory's history has an entry at this very tick."""

    tick: int
    storage: float
    retrieval: float
    stability: float
    salience: float
    kind: int
    version: int
    is_shown: bool
    recorded_at: datetime


def add(tx: Connection, tenant_id: UUID, anchors: TickAnchors, *, is_shown: bool = False) -> None:
    """Store states; a later state of the same memory and tick replaces the earlier one."""
    if not anchors.ids:
        return
    values = {
        "tenant": tenant_id,
        "ids": Uuids(anchors.ids),
        "ticks": Longs(anchors.ticks),
        "storage": Doubles(anchors.storage),
        "retrieval": Doubles(anchors.retrieval),
        "stability": Doubles(anchors.stability),
        "salience": Doubles(anchors.salience),
        "kinds": Integers(anchors.kinds),
        "versions": Integers(anchors.versions),
        "shown": is_shown,
    }
    driver_connection(tx).execute(_ADD, values)


_ADD: Final = """
INSERT INTO activation_history
  (tenant_id, memory_id, tick, storage, retrieval, stability, salience, kind, policy_version, is_shown)
SELECT %(tenant)s, memory_id, tick, storage, retrieval, stability, salience, kind, version, %(shown)s
FROM unnest(%(ids)s, %(ticks)s, %(storage)s, %(retrieval)s, %(stability)s, %(salience)s, %(kinds)s, %(versions)s)
  AS given (memory_id, tick, storage, retrieval, stability, salience, kind, version)
ON CONFLICT (tenant_id, memory_id, tick) DO UPDATE SET storage = excluded.storage, retrieval = excluded.retrieval,
  stability = excluded.stability, salience = excluded.salience, kind = excluded.kind,
  policy_version = excluded.policy_version, is_shown = activation_history.is_shown OR excluded.is_shown,
  recorded_at = excluded.recorded_at
"""

_COLUMNS: Final = "tick, storage, retrieval, stability, salience, kind, policy_version, is_shown, recorded_at"


def read_latest(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, TickAnchor]:
    """Return the latest state of each of these memories that has one, by id."""
    rows = driver_connection(tx).execute(_LATEST, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).fetchall()
    return {row[0]: TickAnchor(*row[1:]) for row in rows}


_LATEST: Final = f"""
SELECT DISTINCT ON (memory_id) memory_id, {_COLUMNS} FROM activation_history
WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) ORDER BY memory_id, tick DESC
"""  # noqa: S608 - constants only


def list_anchors(tx: Connection, tenant_id: UUID, memory_id: UUID) -> list[TickAnchor]:
    """Return the states of a memory in the order of ticks."""
    return [TickAnchor(*row) for row in tx.execute(_LIST, {"tenant": tenant_id, "memory": memory_id})]


_LIST: Final = text(f"""
SELECT {_COLUMNS} FROM activation_history WHERE tenant_id = :tenant AND memory_id = :memory ORDER BY tick
""")  # noqa: S608 - constants only


def delete_before(tx: Connection, tenant_id: UUID, tick: int) -> None:
    """Delete the states that aren't needed to compute activations at this tick or later."""
    tx.execute(_DELETE_BEFORE, {"tenant": tenant_id, "tick": tick})


_DELETE_BEFORE: Final = text("""
DELETE FROM activation_history AS early
WHERE tenant_id = :tenant AND tick < :tick AND EXISTS (
  SELECT FROM activation_history AS late
  WHERE late.tenant_id = :tenant AND late.memory_id = early.memory_id AND late.tick > early.tick AND late.tick < :tick)
""")


def delete_all(tx: Connection, tenant_id: UUID) -> None:
    """Delete all states."""
    tx.execute(_DELETE_ALL, {"tenant": tenant_id})


_DELETE_ALL: Final = text("DELETE FROM activation_history WHERE tenant_id = :tenant")
