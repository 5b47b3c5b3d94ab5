"""Where memories are kept: moving them there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from app.store.core.packed import Uuids, driver


def write(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], tier: str) -> None:
    """Enter where memories are kept from now on, of rows that are locked.

    Turns of a thread that are archived are looked at again: they aren't kept there for ever.
    """
    driver(tx).execute(_WRITE, {"tenant": tenant_id, "ids": Uuids(memory_ids), "tier": tier})


_WRITE: Final = """
UPDATE memory_state SET tier = %(tier)s,
  next_due_at = CASE WHEN %(tier)s = 'archived' AND (
    SELECT thread IS NOT NULL FROM memories AS memory
    WHERE memory.tenant_id = %(tenant)s AND memory.memory_id = memory_state.memory_id
  ) THEN '-infinity' ELSE next_due_at END
WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)
"""


def restore(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], at: float) -> None:
    """Let memories whose rows are locked be active again since a moment, in seconds since 1970."""
    driver(tx).execute(_RESTORE, {"tenant": tenant_id, "ids": Uuids(memory_ids), "at": at})


_RESTORE: Final = """
UPDATE memory_state SET tier = 'active', wanted_tier = 'active', restored_at = to_timestamp(%(at)s),
  next_due_at = '-infinity'
WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)
"""


def look_again(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Let the next sweep look at memories whose rows are locked: what speaks for or against them has changed."""
    driver(tx).execute(_LOOK_AGAIN, {"tenant": tenant_id, "ids": Uuids(memory_ids)})


_LOOK_AGAIN: Final = """
UPDATE memory_state SET next_due_at = '-infinity'
WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND tier <> 'deleted'
"""
