"""Memories of all ages, in any number, generated in PostgreSQL for benchmarks of strength and tier decisions."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from ops.bench.place import Place

DAYS: Final = 60
"""Age of the oldest memories; every decay tier occurs within this span."""


def fill(place: Place, tenant_id: UUID, rows: int, version: int = 1) -> None:
    """Insert `rows` memories for a tenant, anchored under this version of its policy.

    Half of the memories were used after they were accepted. None is due: their due times are in the coming days.
    """
    values = {"tenant": tenant_id, "rows": rows, "version": version, "days": DAYS}
    place.owner.execute(_FILL, values)
    place.owner.execute(_REMEMBER, values)
    place.owner.execute("VACUUM ANALYZE memory_state, memories")


def ids(rows: int) -> list[UUID]:
    """Return the ids of a tenant's rows, in order."""
    return [UUID(int=n) for n in range(1, rows + 1)]


_FILL: Final = """
INSERT INTO memory_state (
  tenant_id, memory_id, kind, salience, salience_source, access_count, created_at, accessed_at, anchored_at,
  policy_version, next_due_at)
SELECT %(tenant)s, lpad(to_hex(n), 32, '0')::uuid, n %% 5, random(), 'heuristic',
  uses, created_at, used_at, used_at, %(version)s, now() + interval '1 day' + random() * interval '90 days'
FROM (
  SELECT n, uses, created_at, CASE WHEN uses > 0 THEN created_at + random() * (now() - created_at) ELSE created_at END
    AS used_at
  FROM (
    SELECT n, greatest(n %% 8 - 3, 0) AS uses, now() - random() * %(days)s * interval '1 day' AS created_at
    FROM generate_series(1, %(rows)s) AS n
  ) AS accepted
) AS used
"""

_REMEMBER: Final = """
INSERT INTO memories (tenant_id, memory_id, seq, text, created_at)
SELECT tenant_id, memory_id, 1, 'x', created_at FROM memory_state WHERE tenant_id = %(tenant)s
"""
