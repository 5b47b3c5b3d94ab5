"""Change the tier of memories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from app.store.core.binary_arrays import Uuids, driver_connection


def write(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], tier: str) -> None:
    """Set the tier of memories whose rows are locked.

    Archived turns of a thread become due for evaluation at once, because the policy may limit how long they are stored.
    """
    driver_connection(tx).execute(_WRITE, {"tenant": tenant_id, "ids": Uuids(memory_ids), "tier": tier})


_WRITE: Final = """
UPDATE memory_state SET tier = %(tier)s,
  next_due_at = CASE WHEN %(tier)s = 'archived' AND (
    SELECT thread IS NOT NULL FROM memories AS memory
    WHERE memory.tenant_id = %(tenant)s AND memory.memory_id = memory_state.memory_id
  ) THEN '-infinity' ELSE next_due_at END
WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)
"""


def restore(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], at: float | None) -> None:
    """Make memories active again and due for the next sweep; their rows are locked.

    Args:
        at: Time of the restore in seconds since 1970; None to leave the time of their last restore.
    """
    driver_connection(tx).execute(_RESTORE, {"tenant": tenant_id, "ids": Uuids(memory_ids), "at": at})


_RESTORE: Final = """
UPDATE memory_state SET tier = 'active', wanted_tier = 'active',
  restored_at = coalesce(to_timestamp(%(at)s::float8), restored_at), next_due_at = '-infinity'
WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)
"""


def mark_due(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Make memories due for the next sweep because a fact that affects them changed; their rows are locked."""
    driver_connection(tx).execute(_LOOK_AGAIN, {"tenant": tenant_id, "ids": Uuids(memory_ids)})


_LOOK_AGAIN: Final = """
UPDATE memory_state SET next_due_at = '-infinity'
WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND tier <> 'deleted'
"""
