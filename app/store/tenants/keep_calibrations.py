"""Store the calibration of a tenant's keep chances, count the uses behind it, and mark the memories that it affects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec
from sqlalchemy import Connection, text

from app.domain.tiers.keep_calibration import KeepCalibration, UseCount, decode_calibration


def read(tx: Connection, tenant_id: UUID) -> KeepCalibration:
    """Return the tenant's calibration; `keep_calibration.NONE` if there is none."""
    return decode_calibration(tx.execute(_READ, {"tenant": tenant_id}).scalar())


_READ = text("SELECT CAST(keep_calibration AS text) FROM tenants WHERE tenant_id = :tenant")


def write(tx: Connection, tenant_id: UUID, calibration: KeepCalibration) -> None:
    """Replace the tenant's calibration, except for the number of deleted memories."""
    tx.execute(_WRITE, {"tenant": tenant_id, "body": msgspec.json.encode(calibration).decode()})


_DELETED = "coalesce(CAST(keep_calibration ->> 'deleted' AS bigint), 0)"
_WRITE = text(f"""
UPDATE tenants SET keep_calibration = CAST(:body AS jsonb) || jsonb_build_object('deleted', {_DELETED})
WHERE tenant_id = :tenant
""")  # noqa: S608 - constants only


def count_deleted(tx: Connection, tenant_id: UUID, memories: int) -> None:
    """Add to the tenant's number of memories that decay has deleted."""
    tx.execute(_COUNT_DELETED, {"tenant": tenant_id, "memories": memories})


_COUNT_DELETED = text(f"""
UPDATE tenants SET keep_calibration = coalesce(keep_calibration, '{{}}')
  || jsonb_build_object('deleted', {_DELETED} + CAST(:memories AS bigint))
WHERE tenant_id = :tenant
""")  # noqa: S608 - constants only


def write_version(tx: Connection, tenant_id: UUID, version: int) -> None:
    """Record by which `CHANCES_VERSION` of the rules the tenant's keep chances are computed."""
    tx.execute(_WRITE_VERSION, {"tenant": tenant_id, "version": version})


_WRITE_VERSION = text("""
UPDATE tenants SET keep_calibration = coalesce(keep_calibration, '{}')
  || jsonb_build_object('version', CAST(:version AS integer))
WHERE tenant_id = :tenant
""")


def count_uses(tx: Connection, tenant_id: UUID, since: datetime, until: datetime, threshold: float) -> list[UseCount]:
    """Count memories accepted in a period, and how many were used or reviewed, by role and side of the threshold.

    Memories whose salience isn't from the rules are left out. A superseded memory counts as unused.

    Args:
        since: Start of the period, inclusive.
        until: End, exclusive.
        threshold: Keep chance; memories above it are counted separately from the others.
    """
    values = {"tenant": tenant_id, "since": since, "until": until, "threshold": threshold}
    return [UseCount(*row) for row in tx.execute(_COUNT_USES, values)]


_COUNT_USES = text("""
SELECT coalesce(memory.role, '') AS speaker, state.keep_chance > :threshold AS is_above, count(*) AS memories,
  count(*) FILTER (WHERE state.access_count > 0 AND NOT EXISTS (
    SELECT FROM supersessions AS later WHERE later.tenant_id = :tenant AND later.superseded_id = state.memory_id
      AND later.status = 'active')) AS used,
  sum(CAST(state.keep_chance AS float8)) AS chance
FROM memory_state AS state CROSS JOIN LATERAL (
  SELECT role FROM memories
  WHERE tenant_id = :tenant AND memories.memory_id = state.memory_id AND deleted_at IS NULL OFFSET 0
) AS memory
WHERE state.tenant_id = :tenant AND state.salience_source = 'heuristic' AND state.keep_chance IS NOT NULL
  AND state.created_at >= :since AND state.created_at < :until
GROUP BY 1, 2 ORDER BY 1, 2
""")


class ChanceRange(NamedTuple):
    """Memories of one role that the keep chance protects under only one of the former and the new calibration.

    Attributes:
        speaker: The role, one of `SPEAKERS`.
        low: Lower end of their keep chances before any shift, inclusive.
        high: Upper end, inclusive.
        low_salience: Lower end of the salience of those that a model rated, inclusive.
        high_salience: Upper end, inclusive.
    """

    speaker: str
    low: float
    high: float
    low_salience: float
    high_salience: float


def mark_due(tx: Connection, tenant_id: UUID, ranges: Sequence[ChanceRange], limit: int) -> int:
    """Mark up to `limit` memories in these ranges due for the next sweep.

    Return the number of memories marked; it is less than `limit` if none remain.
    """
    marked = 0
    for each in ranges:
        values = {"tenant": tenant_id, "limit": limit - marked, **each._asdict()}
        marked += tx.execute(_MARK_DUE, values).rowcount
        if marked >= limit:
            break
    return marked


_MARK_DUE = text("""
WITH chosen AS MATERIALIZED (
  SELECT memory_id FROM memory_state AS state
  WHERE tenant_id = :tenant AND next_due_at > '-infinity' AND tier <> 'deleted'
    AND (salience_source IN ('heuristic', 'consolidation') AND keep_chance BETWEEN :low AND :high
      OR salience_source = 'llm' AND salience BETWEEN :low_salience AND :high_salience)
    AND (SELECT coalesce(role, '') FROM memories
      WHERE memories.tenant_id = :tenant AND memories.memory_id = state.memory_id) = :speaker
  ORDER BY memory_id LIMIT :limit FOR UPDATE
)
UPDATE memory_state AS state SET next_due_at = '-infinity'
FROM chosen WHERE state.tenant_id = :tenant AND state.memory_id = chosen.memory_id
""")
