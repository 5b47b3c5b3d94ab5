"""Build the SQL conditions of the filters that lists and searches share."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import msgspec
from sqlalchemy import Connection

from app.domain.search.content_filters import FILTERS, ContentFilters
from app.store.core.binary_arrays import driver_connection

# Conditions on a row of `memories`, whose columns have the prefix {row}; {value} is the filter's parameter.
_CONDITIONS: Final = {
    "categories": "{row}categories && CAST({value} AS text[])",
    "entities": "{row}entities @> CAST({value} AS text[])",
    "speaker": "{row}speaker = {value}",
    "metadata": "{row}metadata @> CAST({value} AS jsonb)",
    "external_id": "{row}external_id = {value}",
    "external_ids": "{row}external_id = ANY (CAST({value} AS text[]))",
    "sources": "coalesce({row}source, 'unknown') = ANY (CAST({value} AS text[]))",
    "ids": """{row}memory_id = ANY (ARRAY(
    SELECT coalesce((
      SELECT alias.memory_id FROM memory_aliases AS alias
      WHERE alias.tenant_id = {tenant} AND alias.alias_id = given.id
    ), given.id) FROM unnest(CAST({value} AS uuid[])) AS given (id)))""",
}


def content_conditions(
    filters: ContentFilters, values: dict[str, Any], *, row: str = "", parameter: str = "%({})s"
) -> list[str]:
    """Return the filters as conditions on `memories`, and add their parameters to `values`.

    Args:
        row: Prefix of the columns, such as `memory.`.
        parameter: Format of a placeholder, filled with the parameter's name; the tenant's id has the name `tenant`.
    """
    conditions = []
    for name in FILTERS:
        given = getattr(filters, name)
        if given:
            values[f"wanted_{name}"] = msgspec.json.encode(given).decode() if name == "metadata" else _plain(given)
            value, tenant = parameter.format(f"wanted_{name}"), parameter.format("tenant")
            conditions.append(_CONDITIONS[name].format(row=row, value=value, tenant=tenant))
    return conditions


def _plain(given: Any) -> Any:
    return list(given) if isinstance(given, tuple) else given


def list_by_metadata(tx: Connection, filters: ContentFilters, most: int) -> list[UUID]:
    """Return the ids of up to `most` of the tenant's memories whose metadata match, by the index on metadata.

    Row-level security keeps PostgreSQL from using this index for a condition on `memories`, so a function of the
    database looks the ids up.
    """
    values = {"wanted": msgspec.json.encode(filters.metadata).decode(), "most": most}
    rows = driver_connection(tx).execute(_BY_METADATA, values, binary=True)
    return [memory_id for (memory_id,) in rows]


_BY_METADATA: Final = "SELECT memory_id FROM metadata_matches(CAST(%(wanted)s AS jsonb), %(most)s) AS memory_id"
