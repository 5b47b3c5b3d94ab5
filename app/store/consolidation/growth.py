"""Find tenants that may have to consolidate because of their size, over all tenants in one statement."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from sqlalchemy import Connection, text

VECTOR_BYTES_MAX: Final = 32_000
"""Upper limit of a vector's size: 16,000 dimensions of two bytes, the most that `halfvec` holds."""


def list_large(tx: Connection) -> list[UUID]:
    """Return the tenants that may be over their policy's number of active memories or near their quota.

    Each vector counts with the largest possible size: every tenant near its quota is included, and maybe others.

    Args:
        tx: A transaction from `database.drain()`.
    """
    return list(tx.execute(_LARGE, {"vector_bytes": VECTOR_BYTES_MAX}).scalars())


_LARGE = text("""
SELECT tenant_id FROM (
  SELECT tenant_id, sum(active) AS active, sum(active + archived) AS vectors, sum(text_bytes) AS text_bytes
  FROM tenant_counts GROUP BY tenant_id HAVING sum(active) > 1
) AS counted CROSS JOIN LATERAL (
  SELECT body FROM policies
  WHERE policies.tenant_id = counted.tenant_id AND effective_at <= now() ORDER BY version DESC LIMIT 1
) AS policy
WHERE NOT coalesce(CAST(body #>> '{consolidation,paused}' AS boolean), false) AND (
  active > coalesce(CAST(body #>> '{consolidation,memories_above}' AS bigint), 10000)
  OR text_bytes + vectors * :vector_bytes
    > CAST(body ->> 'quota_bytes' AS float8) * coalesce(CAST(body ->> 'quota_near' AS float8), 0.8)
)
""")
