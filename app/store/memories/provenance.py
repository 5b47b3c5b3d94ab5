"""Store who wrote memories: lower their sources, and record the API keys that changed them.

The key that added a memory is in its column `written_by`; `memory_writers` has the keys that changed the memory since.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection

from app.domain.ingest.sources import Source, as_stored, is_lower, rank_sql
from app.store.core.binary_arrays import Uuids, driver_connection


class WriteTime(NamedTuple):
    """A change of a memory: the API key, None if it is unknown, and the time."""

    memory_id: UUID
    key_id: str | None
    at: datetime


def lower_source(tx: Connection, tenant_id: UUID, memory_id: UUID, source: Source) -> dict[str, Any]:
    """Return the update of the column `source` that lowers it to this source; empty if it is already as low or lower.

    Args:
        memory_id: A memory that the caller has locked.
    """
    values = {"tenant": tenant_id, "ids": Uuids([memory_id])}
    [(_, current)] = driver_connection(tx).execute(_SOURCES, values).fetchall()
    return {"source": as_stored(source)} if is_lower(source, current) else {}


_SOURCES: Final = "SELECT memory_id, source FROM memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)"


def read_sources(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, str | None]:
    """Return the stored source of each of these memories; None means `unknown`."""
    return dict(driver_connection(tx).execute(_SOURCES, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).fetchall())


def lower_sources(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], source: Source) -> list[UUID]:
    """Lower the source of locked memories to a source; return the memories that had a higher one."""
    values = {"tenant": tenant_id, "ids": Uuids(memory_ids), "source": as_stored(source)}
    return [row[0] for row in driver_connection(tx).execute(_LOWER.encode(), values).fetchall()]


_LOWER: Final = f"""
UPDATE memories SET source = %(source)s
WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND {rank_sql("source")} < {rank_sql("%(source)s::text")}
RETURNING memory_id
"""  # noqa: S608 - constants only


def record_writes(tx: Connection, tenant_id: UUID, writes: Sequence[WriteTime]) -> None:
    """Record that keys changed memories that the caller has locked; changes by unknown keys are omitted."""
    known = sorted(write for write in writes if write.key_id is not None)
    if known:
        values = {
            "tenant": tenant_id,
            "ids": Uuids([write.memory_id for write in known]),
            "keys": [write.key_id for write in known],
            "times": [write.at for write in known],
        }
        driver_connection(tx).execute(_RECORD, values)


_RECORD: Final = """
INSERT INTO memory_writers AS known (tenant_id, memory_id, key_id, first_at, last_at)
SELECT %(tenant)s, memory_id, key_id, min(at), max(at)
FROM unnest(%(ids)s, %(keys)s::text[], %(times)s::timestamptz[]) AS given (memory_id, key_id, at)
GROUP BY memory_id, key_id ORDER BY memory_id, key_id
ON CONFLICT (tenant_id, memory_id, key_id) DO UPDATE
SET first_at = least(known.first_at, excluded.first_at), last_at = greatest(known.last_at, excluded.last_at)
"""
