"""Look up facts about used memories: their stored ids, recent uses and tags."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection

from app.store.core.binary_arrays import Longs, Timestamps, Uuids, decode_moments, decode_uuids, driver_connection


def read_aliases(tx: Connection, tenant_id: UUID, memory_ids: Collection[UUID]) -> dict[UUID, UUID]:
    """Return the id of the stored memory for each of these ids that is an alias; other ids are omitted."""
    values = {"tenant": tenant_id, "ids": Uuids(list(memory_ids))}
    return dict(driver_connection(tx).execute(_ALIASES, values).fetchall())


_ALIASES: Final = """
SELECT alias_id, memory_id FROM memory_aliases WHERE tenant_id = %(tenant)s AND alias_id = ANY (%(ids)s)
"""


def list_recent(
    tx: Connection,
    tenant_id: UUID,
    memory_ids: Sequence[UUID],
    sessions: npt.NDArray[np.int64],
    at: npt.NDArray[np.float64],
    near_seconds: float,
) -> tuple[list[UUID], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return recorded uses of the same memory and session within `near_seconds` of a given use.

    Args:
        memory_ids: The used memories, one per use.
        sessions: Session digests, shape (n,).
        at: Times of the uses in seconds since 1970, shape (n,).
        near_seconds: Maximum time before or after a given use.

    Returns:
        The memories, session digests and times (in seconds since 1970) of the recorded uses; shape (n,) each.
    """
    values = {
        "tenant": tenant_id,
        "ids": Uuids(memory_ids),
        "sessions": Longs(sessions),
        "since": Timestamps(at - near_seconds),
        "until": Timestamps(at + near_seconds),
    }
    ids, digests, times = driver_connection(tx).execute(_RECENT, values, binary=True).fetchone() or (None, None, None)
    return decode_uuids(ids), np.frombuffer(digests or b"", ">i8").astype(np.int64), decode_moments(times)


# One lookup per use by the primary key. The row comparison is deliberate: without statistics the planner assumes that a
# time range alone is as selective as a memory id, and reads all events around each use.
_RECENT: Final = """
SELECT string_agg(uuid_send(memory_id), ''), string_agg(int8send(session), ''), string_agg(timestamptz_send(at), '')
FROM (
  SELECT DISTINCT given.memory_id, given.session, used.at
  FROM unnest(%(ids)s, %(sessions)s, %(since)s, %(until)s) AS given (memory_id, session, since, until)
  CROSS JOIN LATERAL (
    SELECT event.at FROM memory_events AS event
    WHERE event.tenant_id = %(tenant)s AND event.memory_id = given.memory_id AND event.session = given.session
      AND (event.memory_id, event.at) >= (given.memory_id, given.since)
      AND (event.memory_id, event.at) <= (given.memory_id, given.until)
      AND event.kind IN ('use', 'late_use') OFFSET 0
  ) AS used
) AS found
"""


def read_tags(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, list[str]]:
    """Return the tags by memory; memories without tags are omitted."""
    return dict(driver_connection(tx).execute(_TAGS, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).fetchall())


_TAGS: Final = """
SELECT memory_id, tags FROM memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND tags <> '{}'
"""
