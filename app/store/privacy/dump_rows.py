"""Read the rows of a tenant for a dump, page by page. Memories hidden by erasures or quarantines aren't read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from sqlalchemy import Connection

from app.domain.imports.dump import CONNECTING, SETTINGS
from app.store.core.binary_arrays import Uuids, driver_connection, fetch_value


class DumpedRows(NamedTuple):
    """The rows of a memory, as JSON."""

    memory_id: UUID
    tier: str
    memory: dict[str, Any]
    state: dict[str, Any]
    score: dict[str, Any] | None
    events: list[dict[str, Any]]
    vector: list[float] | None
    sources: list[dict[str, Any]] | None


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
    FROM memory_events AS event WHERE tenant_id = %(tenant)s AND event.memory_id = page.memory_id), '[]')::text,
  coalesce((SELECT to_jsonb(CAST(embedding AS real[])) FROM embeddings AS sent
    WHERE sent.tenant_id = %(tenant)s AND sent.memory_id = page.memory_id AND by_caller
      AND sent.text_version = page.text_version
      AND space_id = (SELECT space_id FROM tenant_spaces WHERE tenant_id = %(tenant)s)),
    (SELECT to_jsonb(CAST(vector AS real[])) FROM archived_memories AS sent
    WHERE sent.tenant_id = %(tenant)s AND sent.memory_id = page.memory_id AND by_caller
      AND sent.text_version = page.text_version), 'null')::text,
  coalesce(CASE WHEN page.made_by = 'consolidation' THEN (
    SELECT jsonb_agg(origin) FROM (
      SELECT source.memory_id, source.seq, source.subject, source.thread, source.kind, source.tags, source.categories,
        source.occurred_at, source.created_at
      FROM merges
      JOIN lineage ON lineage.tenant_id = %(tenant)s AND lineage.merge_id = merges.merge_id
        AND part IN ('source', 'kept')
      JOIN memories AS source ON source.tenant_id = %(tenant)s AND source.memory_id = lineage.memory_id
      WHERE merges.tenant_id = %(tenant)s AND merges.summary_id = page.memory_id
      UNION ALL
      SELECT source_id, 0, subject, thread, kind, tags, categories, occurred_at, created_at
      FROM decayed_sources WHERE tenant_id = %(tenant)s AND memory_id = page.memory_id
    ) AS origin) END, 'null')::text
FROM (
  SELECT * FROM memories WHERE tenant_id = %(tenant)s AND memory_id > %(after)s AND deleted_at IS NULL
  ORDER BY memory_id LIMIT %(limit)s
) AS page
JOIN memory_state AS state ON state.tenant_id = %(tenant)s AND state.memory_id = page.memory_id
ORDER BY page.memory_id
"""


def count_memories(tx: Connection, tenant_id: UUID) -> int:
    """Return the number of memories that a dump contains now."""
    return int(fetch_value(tx, _COUNT, {"tenant": tenant_id}))


_COUNT: Final = "SELECT count(*) FROM memories WHERE tenant_id = %(tenant)s AND deleted_at IS NULL"


def count_quarantined(tx: Connection, tenant_id: UUID) -> int:
    """Return the number of memories that quarantines hide."""
    return int(fetch_value(tx, _QUARANTINED, {"tenant": tenant_id}))


_QUARANTINED: Final = """
SELECT count(*) FROM hidden_memories WHERE tenant_id = %(tenant)s AND erasure_id = ANY (ARRAY(
  SELECT quarantine_id FROM quarantines WHERE tenant_id = %(tenant)s AND status <> 'lifted'))
"""


def list_connecting(tx: Connection, tenant_id: UUID, table: str, memory_ids: Sequence[UUID]) -> list[dict[str, Any]]:
    """Return the rows of a table of `CONNECTING` whose first memory is one of these, with links in cold storage."""
    first = CONNECTING[table][0]
    statement = f"""
SELECT (to_jsonb(found) - 'tenant_id')::text FROM {_PLACES.get(table, table)} AS found
WHERE tenant_id = %(tenant)s AND {first} = ANY (%(ids)s)
"""  # noqa: S608 - names from code
    values = {"tenant": tenant_id, "ids": Uuids(memory_ids)}
    return [msgspec.json.decode(row) for (row,) in driver_connection(tx).execute(statement.encode(), values).fetchall()]


_PLACES: Final = {"links": "(SELECT * FROM links UNION ALL SELECT * FROM cold_links)"}
"""Relations with the rows of a table, if the table alone lacks some."""


def list_standing(tx: Connection, tenant_id: UUID, table: str) -> list[dict[str, Any]]:
    """Return all of the tenant's rows of a table: one of `STANDING`, or `tick_averages`."""
    statement = f"SELECT (to_jsonb(found) - 'tenant_id')::text FROM {table} AS found WHERE tenant_id = %(tenant)s"  # noqa: S608 - names from code
    return [msgspec.json.decode(row) for (row,) in driver_connection(tx).execute(statement, {"tenant": tenant_id})]


def list_merges(tx: Connection, tenant_id: UUID, after: UUID, limit: int) -> list[tuple[UUID, dict[str, Any]]]:
    """Return the next merges by id, each with its lineage; `key_points` is emptied for merges without a summary."""
    values = {"tenant": tenant_id, "after": after, "limit": limit}
    rows = driver_connection(tx).execute(_MERGES.encode(), values).fetchall()
    return [(merge_id, msgspec.json.decode(row)) for merge_id, row in rows]


_MERGES: Final = """
SELECT merge_id, (to_jsonb(merge) - 'tenant_id'
  || CASE WHEN summary_id IS NULL THEN '{"key_points": []}'::jsonb ELSE '{}' END
  || jsonb_build_object('lineage', coalesce((
    SELECT jsonb_agg(jsonb_build_object('memory_id', memory_id, 'text_version', text_version, 'part', part)
      ORDER BY memory_id)
    FROM lineage WHERE lineage.tenant_id = %(tenant)s AND lineage.merge_id = merge.merge_id), '[]')))::text
FROM merges AS merge WHERE tenant_id = %(tenant)s AND merge_id > %(after)s ORDER BY merge_id LIMIT %(limit)s
"""


def read_settings(tx: Connection, tenant_id: UUID) -> dict[str, Any]:
    """Return the tenant-wide settings for a dump's header, by name (`dump.SETTINGS`); null values are omitted."""
    row = driver_connection(tx).execute(_SETTINGS.encode(), {"tenant": tenant_id}).fetchone()
    settings: dict[str, Any] = msgspec.json.decode(row[0]) if row else {}
    return {name: settings[name] for name in SETTINGS if settings.get(name) is not None}


_SETTINGS: Final = """
SELECT jsonb_build_object(
  'tenant', jsonb_build_object('defaults', defaults, 'keep_calibration', keep_calibration,
    'learned_rates', learned_rates),
  'paused', (SELECT jsonb_agg(jsonb_build_object('task', task, 'next_run_at', next_run_at, 'last_date', last_date))
    FROM schedules WHERE tenant_id = %(tenant)s AND paused),
  'decay_clock', (SELECT to_jsonb(clock) - 'tenant_id' FROM decay_clocks AS clock WHERE tenant_id = %(tenant)s),
  'contradictions_until', (SELECT accepted_until FROM contradiction_watermarks WHERE tenant_id = %(tenant)s)
)::text FROM tenants WHERE tenant_id = %(tenant)s
"""


def list_policies(tx: Connection, tenant_id: UUID) -> list[tuple[int, float, str, str | None]]:
    """Return all versions of the policy: number, effective time in seconds since 1970, JSON, and author."""
    return driver_connection(tx).execute(_POLICIES, {"tenant": tenant_id}).fetchall()


_POLICIES: Final = """
SELECT version, CAST(extract(epoch FROM effective_at) AS float8), CAST(body AS text), author
FROM policies WHERE tenant_id = %(tenant)s ORDER BY version
"""
