"""Flag memories as promoted, and list candidates for promotion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

from app.store.core.binary_arrays import Uuids, driver_connection
from app.store.strength.states import ALIVE, NOT_AHEAD, StoredStates, build_select, fetch_states


class NewFlag(NamedTuple):
    """The reason for a promotion, and the strength at that time, 0 to 1."""

    reason: str
    strength: float


def set_flags(
    tx: Connection, tenant_id: UUID, flags: Mapping[UUID, NewFlag], now: float, *, also_demoted: bool = False
) -> list[UUID]:
    """Flag memories as promoted; the caller has locked their rows. Return the ids that weren't flagged before.

    Args:
        flags: Reason and strength by memory.
        now: Seconds since 1970.
        also_demoted: Also flag memories that were demoted, which then no longer count as demoted.
    """
    if not flags:
        return []
    values = {
        "tenant": tenant_id,
        "memory_ids": list(flags),
        "reasons": [flag.reason for flag in flags.values()],
        "strengths": [round(flag.strength, 30) for flag in flags.values()],  # PostgreSQL rejects smaller `real` values
        "now": now,
        "also_demoted": also_demoted,
    }
    return list(tx.execute(_SET_FLAGS, values).scalars())


_SET_FLAGS = text("""
UPDATE memory_state AS state
SET promoted_at = to_timestamp(:now), promoted_for = given.reason, promoted_strength = given.strength, demoted_at = NULL
FROM unnest(CAST(:memory_ids AS uuid[]), CAST(:reasons AS text[]), CAST(:strengths AS real[]))
  AS given (memory_id, reason, strength)
WHERE state.tenant_id = :tenant AND state.memory_id = given.memory_id AND state.promoted_at IS NULL
  AND (:also_demoted OR state.demoted_at IS NULL)
RETURNING state.memory_id
""")


def clear_flag(tx: Connection, tenant_id: UUID, memory_id: UUID, now: float) -> str | None:
    """Demote a memory whose row is locked. Return the reason of its promotion, or None if it wasn't promoted.

    Args:
        now: Seconds since 1970.
    """
    values = {"tenant": tenant_id, "memory_id": memory_id, "now": now}
    return tx.execute(_CLEAR_FLAG, values).scalar()


_CLEAR_FLAG = text("""
UPDATE memory_state AS state
SET promoted_at = NULL, promoted_for = NULL, promoted_strength = NULL, demoted_at = to_timestamp(:now)
FROM (SELECT promoted_for FROM memory_state WHERE tenant_id = :tenant AND memory_id = :memory_id) AS former
WHERE state.tenant_id = :tenant AND state.memory_id = :memory_id AND state.promoted_at IS NOT NULL
RETURNING former.promoted_for
""")


def list_candidates(
    tx: Connection, tenant_id: UUID, as_of: float, version: int, since: float, *, after: UUID, limit: int
) -> StoredStates:
    """Return a page of used memories that are neither promoted nor were demoted, in id order, without locking them.

    Memories that were used after `as_of` are omitted, like those under a later policy.

    Args:
        as_of: Seconds since 1970.
        version: The policy version in force at that time.
        since: Earliest creation, in seconds since 1970.
    """
    values: dict[str, Any] = {"tenant": tenant_id, "as_of": as_of, "version": version, "after": after, "limit": limit}
    return fetch_states(tx, _CANDIDATES, values | {"since": since})


_CANDIDATES: Final = build_select(
    f"memory_id > %(after)s AND {ALIVE} AND {NOT_AHEAD} AND access_count > 0 "
    "AND promoted_at IS NULL AND demoted_at IS NULL AND created_at >= to_timestamp(%(since)s::float8) "
    "ORDER BY memory_id LIMIT %(limit)s"
)


def list_tiers(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, str]:
    """Return the current tiers of these memories."""
    values = {"tenant": tenant_id, "ids": Uuids(memory_ids)}
    return dict(driver_connection(tx).execute(_TIERS, values).fetchall())


_TIERS: Final = "SELECT memory_id, tier FROM memory_state WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)"
