"""Store links that couldn't be created with their memory; links to a missing memory wait until it arrives."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from app.domain.strength.links import MissingLink
from app.store.core.binary_arrays import Uuids, driver_connection


def claim(
    tx: Connection, tenant_id: UUID, arrived: Collection[str], restated: Collection[tuple[UUID, str, str]]
) -> list[MissingLink]:
    """Remove and return the links that wait for these external ids, oldest first, and remove links stated again.

    Args:
        arrived: External ids of memories that were just stored.
        restated: Memory, target's name and kind of links that the same memories state again; they aren't returned.
    """
    values = {
        "tenant": tenant_id,
        "arrived": list(arrived),
        "ids": Uuids([memory_id for memory_id, _, _ in restated]),
        "names": [name for _, name, _ in restated],
        "kinds": [kind for _, _, kind in restated],
    }
    rows = driver_connection(tx).execute(_CLAIM, values).fetchall()
    claimed = sorted(rows, key=lambda row: (row[-1], row[0], row[1], row[2]))
    return [MissingLink(*row[:-1]) for row in claimed if tuple(row[:3]) not in restated]


_CLAIM: Final = """
WITH gone AS (
  DELETE FROM missing_links WHERE tenant_id = %(tenant)s AND named = ANY (%(arrived)s::text[]) AND reason = 'missing'
  RETURNING memory_id, named, kind, weight, reason, made_at
), restated AS (
  DELETE FROM missing_links AS known USING unnest(%(ids)s, %(names)s::text[], %(kinds)s::text[])
    AS given (memory_id, named, kind)
  WHERE tenant_id = %(tenant)s AND known.memory_id = given.memory_id AND known.named = given.named
    AND known.kind = given.kind AND NOT (known.named = ANY (%(arrived)s::text[]) AND reason = 'missing')
)
SELECT * FROM gone
"""


def insert(tx: Connection, tenant_id: UUID, missing: Sequence[MissingLink]) -> None:
    """Store missing links; a link with the same memory, name and kind gets the new weight and reason."""
    if missing:
        memory_ids, names, kinds, weights, reasons = zip(*missing, strict=True)
        values = {"ids": Uuids(memory_ids), "names": list(names), "kinds": list(kinds), "reasons": list(reasons)}
        values |= {"weights": [round(weight, 30) for weight in weights], "tenant": tenant_id}
        driver_connection(tx).execute(_INSERT, values)


_INSERT: Final = """
INSERT INTO missing_links (tenant_id, memory_id, named, kind, weight, reason)
SELECT %(tenant)s, memory_id, named, kind, weight, reason
FROM unnest(%(ids)s, %(names)s::text[], %(kinds)s::text[], %(weights)s::float8[], %(reasons)s::text[])
  AS given (memory_id, named, kind, weight, reason)
ON CONFLICT (tenant_id, memory_id, named, kind) DO UPDATE SET weight = excluded.weight, reason = excluded.reason
"""


def list_of(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[MissingLink]:
    """Return the missing links of these memories, by memory, name and kind."""
    rows = driver_connection(tx).execute(_LIST, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).fetchall()
    return [MissingLink(*row) for row in rows]


_LIST: Final = """
SELECT memory_id, named, kind, weight, reason FROM missing_links
WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) ORDER BY memory_id, named, kind
"""

DELETE_NAMED: Final = """
DELETE FROM missing_links WHERE tenant_id = %(tenant)s AND named = ANY (ARRAY(
  SELECT unnest(ARRAY[CAST(memory_id AS text), external_id]) FROM memories
  WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)
  UNION ALL
  SELECT CAST(alias_id AS text) FROM memory_aliases WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)))
"""
"""Statement that deletes the missing links whose targets are memories about to be deleted."""
