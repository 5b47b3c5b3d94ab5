"""Flag memories as promoted."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from sqlalchemy import Connection, text


def set_flags(tx: Connection, tenant_id: UUID, reasons: Mapping[UUID, str], now: float) -> list[UUID]:
    """Flag memories as promoted; the caller has locked their rows. Return the ids that weren't flagged before.

    Args:
        reasons: Memory id → reason for its promotion.
        now: Seconds since 1970.
    """
    if not reasons:
        return []
    values = {"tenant": tenant_id, "memory_ids": list(reasons), "reasons": list(reasons.values()), "now": now}
    return list(tx.execute(_SET_FLAGS, values).scalars())


_SET_FLAGS = text("""
UPDATE memory_state AS state SET promoted_at = to_timestamp(:now), promoted_for = given.reason
FROM unnest(CAST(:memory_ids AS uuid[]), CAST(:reasons AS text[])) AS given (memory_id, reason)
WHERE state.tenant_id = :tenant AND state.memory_id = given.memory_id AND state.promoted_at IS NULL
RETURNING state.memory_id
""")
