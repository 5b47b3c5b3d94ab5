"""Read the rows of a tenant for a dump, page by page. Memories that erasures have hidden aren't read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from sqlalchemy import Connection

from app.domain.imports.dump import CONNECTING
from app.store.core.binary_arrays import Uuids, driver_connection


class DumpedRows(NamedTuple):
    """The rows of a memory, as JSON."""

    memory_id: UUID
    tier: str
    memory: dict[str, Any]
    state: dict[str, Any]
    score: dict[str, Any] | None
    events: list[dict[str, Any]]


def list_memories(tx: Connection, tenant_id: UUID, after: UUID, limit: int) -> list[DumpedRows]:
    """Return the rows of the next memories in id order."""
    rows = driver_connection(tx).execute(_PAGE.encode(), {"tenant": tenant_id, "after": after, "limit": limit})
    return [
        DumpedRows(memory_id, tier, *(msgspec.json.decode(value) for value in values))
        for memory_id, tier, *values in rows.fetchall()
    ]


_PAGE: Final = """
SELECT page.memory_id, state.tier, (to_jsonb(page) - ARRAY['tenant_id', 'deleted_at'])::text,
  (to_jsonb(state) - ARRAY['tenant_id', 'memory_id'])::text,
  coalesce((SELECT to_jsonb(scores) - ARRAY['tenant_id', 'memory_id'] FROM scores
    WHERE tenant_id = %(tenant)s AND scores.memory_id = page.memory_id), 'null')::text,
  coalesce((SELECT jsonb_agg(to_jsonb(event) - ARRAY['tenant_id', 'memory_id', 'event_id'] ORDER BY at, event_id)
    FROM memory_events AS event WHERE tenant_id = %(tenant)s AND event.memory_id = page.memory_id), '[]')::text
FROM (
  SELECT * FROM memories WHERE tenant_id = %(tenant)s AND memory_id > %(after)s AND deleted_at IS NULL
  ORDER BY memory_id LIMIT %(limit)s
) AS page
JOIN memory_state AS state ON state.tenant_id = %(tenant)s AND state.memory_id = page.memory_id
ORDER BY page.memory_id
"""


def list_connecting(tx: Connection, tenant_id: UUID, table: str, memory_ids: Sequence[UUID]) -> list[dict[str, Any]]:
    """Return the rows of a table of `CONNECTING` whose first memory is one of these."""
    first = CONNECTING[table][0]
    statement = f"""
SELECT (to_jsonb(found) - 'tenant_id')::text FROM {table} AS found
WHERE tenant_id = %(tenant)s AND {first} = ANY (%(ids)s)
"""  # noqa: S608 - names from code
    values = {"tenant": tenant_id, "ids": Uuids(memory_ids)}
    return [msgspec.json.decode(row) for (row,) in driver_connection(tx).execute(statement.encode(), values).fetchall()]
