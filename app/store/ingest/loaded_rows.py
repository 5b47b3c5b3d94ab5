"""Insert the rows of a dump as they are, and find what was erased since the dump was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
import psycopg
from sqlalchemy import Connection, text

from app.domain.imports.dump import CONNECTING, SETTINGS
from app.store.core.binary_arrays import Uuids, driver_connection, fetch_column

TABLES: Final = ("memories", "memory_state", "scores", "memory_events")
_GENERATED: Final = ("event_id",)


class RowsRefused(Exception):
    """Rows of the dump lack a column or violate a constraint; the message names the table and contains no values."""


def insert_rows(tx: Connection, tenant_id: UUID, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows into a table of `TABLES`; columns that the rows don't have keep their defaults.

    Raises:
        RowsRefused: A row violates a constraint.
    """
    if not rows:
        return
    known = _columns(tx, table)
    names = sorted(set.intersection(known, *(row.keys() for row in rows)) - {"tenant_id", *_GENERATED})
    columns = ", ".join(names)
    statement = f"""
INSERT INTO {table} (tenant_id, {columns})
SELECT %(tenant)s, {columns} FROM jsonb_populate_recordset(NULL::{table}, %(rows)s::text::jsonb)
"""  # noqa: S608 - names of the catalogue
    _execute(tx, statement, {"tenant": tenant_id, "rows": msgspec.json.encode(rows).decode()}, table)


def insert_connecting(tx: Connection, tenant_id: UUID, table: str, rows: Sequence[Mapping[str, Any]]) -> int:
    """Insert those rows of a table of `CONNECTING` whose memories are stored. Return the number of inserted rows.

    Raises:
        RowsRefused: A row violates a constraint.
    """
    known = _columns(tx, table)
    names = sorted(set.intersection(known, *(row.keys() for row in rows)) - {"tenant_id"})
    if not set(CONNECTING[table]) <= set(names):
        raise RowsRefused(f"rows of {table} lack a column")
    columns = ", ".join(names)
    ends = " AND ".join(
        f"(given.{end} IS NULL OR EXISTS (SELECT FROM memories WHERE tenant_id = %(tenant)s AND memory_id = given.{end}"
        " AND deleted_at IS NULL))"
        for end in CONNECTING[table]
    )
    statement = f"""
INSERT INTO {table} (tenant_id, {columns})
SELECT %(tenant)s, {columns} FROM jsonb_populate_recordset(NULL::{table}, %(rows)s::text::jsonb) AS given WHERE {ends}
ON CONFLICT DO NOTHING
"""  # noqa: S608 - names of the catalogue
    return _execute(tx, statement, {"tenant": tenant_id, "rows": msgspec.json.encode(rows).decode()}, table)


def insert_standing(tx: Connection, tenant_id: UUID, table: str, rows: Sequence[Mapping[str, Any]]) -> int:
    """Insert rows into a table, except rows that exist already. Return the number of inserted rows.

    Raises:
        RowsRefused: A row violates a constraint.
    """
    names = ", ".join(sorted(set.intersection(_columns(tx, table), *(row.keys() for row in rows)) - {"tenant_id"}))
    statement = f"""
INSERT INTO {table} (tenant_id, {names})
SELECT %(tenant)s, {names} FROM jsonb_populate_recordset(NULL::{table}, %(rows)s::text::jsonb) AS given
ON CONFLICT DO NOTHING
"""  # noqa: S608 - names of the catalogue
    return _execute(tx, statement, {"tenant": tenant_id, "rows": msgspec.json.encode(rows).decode()}, table)


def insert_merges(tx: Connection, tenant_id: UUID, rows: Sequence[Mapping[str, Any]]) -> tuple[int, list[UUID]]:
    """Insert, with their lineage, the merges that have no summary or whose summary is stored.

    Returns:
        The number of inserted merges, and the sources of done merges whose summary isn't stored.

    Raises:
        RowsRefused: A row violates a constraint.
    """
    named = [row["summary_id"] for row in rows if row.get("summary_id") is not None]
    try:
        stored = find_stored(tx, tenant_id, [UUID(str(summary_id)) for summary_id in named])
        lost = [row for row in rows if row.get("summary_id") is not None and UUID(row["summary_id"]) not in stored]
        freed = [
            UUID(ancestor["memory_id"])
            for row in lost
            for ancestor in row["lineage"]
            if row.get("status") == "done" and ancestor.get("part") == "source"
        ]
        kept = [row for row in rows if row not in lost]
        lineage = [ancestor | {"merge_id": row["merge_id"]} for row in kept for ancestor in row["lineage"]]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise RowsRefused("a row of merges lacks a column") from None
    inserted = insert_standing(tx, tenant_id, "merges", kept) if kept else 0
    if lineage:
        insert_standing(tx, tenant_id, "lineage", lineage)
    return inserted, freed


def write_settings(tx: Connection, tenant_id: UUID, settings: Mapping[str, Any]) -> None:
    """Store the tenant-wide settings of a dump's header (`dump.SETTINGS`).

    Raises:
        RowsRefused: A value violates a constraint.
    """
    values: dict[str, Any] = {name: msgspec.json.encode(settings.get(name)).decode() for name in SETTINGS}
    for statement in _SETTINGS:
        _execute(tx, statement, values | {"id": tenant_id}, "settings")


_SETTINGS: Final = (
    """
UPDATE tenants SET
  defaults = least(tenants.defaults, coalesce(given.defaults, tenants.defaults)),
  keep_calibration = coalesce(given.keep_calibration, tenants.keep_calibration),
  learned_rates = coalesce(given.learned_rates, tenants.learned_rates)
FROM jsonb_to_record(coalesce(nullif(%(tenant)s::text::jsonb, 'null'), '{}')) AS given (
  defaults smallint, keep_calibration jsonb, learned_rates jsonb)
WHERE tenant_id = %(id)s
""",
    """
INSERT INTO schedules (schedule_id, tenant_id, task, paused, next_run_at, last_date)
SELECT gen_random_uuid(), %(id)s, task, true, next_run_at, last_date
FROM jsonb_to_recordset(coalesce(nullif(%(paused)s::text::jsonb, 'null'), '[]')) AS given (
  task text, next_run_at timestamptz, last_date date)
ON CONFLICT (tenant_id, task) DO UPDATE SET paused = true
""",
    """
INSERT INTO decay_clocks (tenant_id, tick, ticked_at, interval_seconds)
SELECT %(id)s, tick, ticked_at, interval_seconds
FROM jsonb_populate_record(NULL::decay_clocks, nullif(%(decay_clock)s::text::jsonb, 'null'))
WHERE tick IS NOT NULL ON CONFLICT DO NOTHING
""",
    """
INSERT INTO contradiction_watermarks (tenant_id, accepted_until)
SELECT %(id)s, CAST(until AS timestamptz) FROM jsonb_to_record(
  jsonb_build_object('until', %(contradictions_until)s::text::jsonb)) AS given (until text)
WHERE until IS NOT NULL ON CONFLICT DO NOTHING
""",
)


def _execute(tx: Connection, statement: str, values: Mapping[str, Any], table: str) -> int:
    try:
        return driver_connection(tx).execute(statement.encode(), values).rowcount
    except (psycopg.errors.IntegrityError, psycopg.errors.DataError):
        raise RowsRefused(f"a row of {table} violates a constraint of the table") from None


def _columns(tx: Connection, table: str) -> set[str]:
    return set(tx.execute(_COLUMNS, {"table": table}).scalars())


_COLUMNS: Final = text("""
SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(:table) AND attnum > 0 AND NOT attisdropped
""")


def find_lower(tx: Connection, tenant_id: UUID) -> tuple[bool, bool]:
    """Return whether a tenant has archived memories, and whether any of them have the wanted tier `cold`."""
    archived, cold = tx.execute(_LOWER, {"tenant": tenant_id}).one()
    return archived, cold


_LOWER: Final = text("""
SELECT coalesce(bool_or(true), false), coalesce(bool_or(wanted_tier = 'cold'), false) FROM memory_state
WHERE tenant_id = :tenant AND tier <> 'active' AND tier = 'archived'
""")


def find_stored(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> set[UUID]:
    """Return those of these memories that exist, including hidden ones."""
    return set(fetch_column(tx, _STORED, {"tenant": tenant_id, "ids": Uuids(memory_ids)}))


_STORED: Final = "SELECT memory_id FROM memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)"


def find_names(tx: Connection, tenant_id: UUID, external_ids: Sequence[str]) -> set[str]:
    """Return those of these external ids that a stored memory has."""
    return set(fetch_column(tx, _NAMES, {"tenant": tenant_id, "names": list(external_ids)}))


_NAMES: Final = """
SELECT external_id FROM memories
WHERE tenant_id = %(tenant)s AND external_id = ANY (%(names)s::text[]) AND deleted_at IS NULL
"""


def find_erased(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> set[UUID]:
    """Return those of these memories that the tenant's ledger of erasures lists."""
    return set(fetch_column(tx, _ERASED, {"tenant": tenant_id, "ids": Uuids(memory_ids)}))


_ERASED: Final = """
SELECT DISTINCT id FROM ebbing_keys.erasure_ledger CROSS JOIN LATERAL unnest(memory_ids) AS id
WHERE tenant_id = %(tenant)s AND memory_ids && %(ids)s AND id = ANY (%(ids)s)
"""


def read_source(tx: Connection, tenant_id: UUID) -> str | None:
    """Return `here` if this installation has a dump's tenant, `deleted` if it was deleted, or None if it is unknown."""
    status: str | None = tx.execute(_SOURCE, {"tenant": tenant_id}).scalar()
    return status


_SOURCE: Final = text("""
SELECT CASE WHEN deleted_at IS NULL THEN 'here' ELSE 'deleted' END FROM tenants WHERE tenant_id = :tenant
""")


def is_untouched(tx: Connection, tenant_id: UUID) -> bool:
    """Return whether a tenant has no memories and only its first policy."""
    return bool(tx.execute(_UNTOUCHED, {"tenant": tenant_id}).scalar_one())


_UNTOUCHED: Final = text("""
SELECT NOT EXISTS (SELECT FROM memories WHERE tenant_id = :tenant)
  AND (SELECT count(*) FROM policies WHERE tenant_id = :tenant) <= 1
""")
