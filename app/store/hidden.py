"""What an open erasure has hidden leaves the indexes, so that it crowds out nothing, until it is cancelled or done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from app.store.packed import Uuids, driver


def indexed(tx: Connection, tenant_id: UUID, erasure_id: UUID, after: UUID, limit: int) -> list[UUID]:
    """Memories that an erasure has hidden, in pages by id, locked."""
    values = {"tenant": tenant_id, "erasure_id": erasure_id, "after": after, "limit": limit}
    return [memory_id for (memory_id,) in driver(tx).execute(_INDEXED, values).fetchall()]


_INDEXED: Final = """
SELECT memory_id FROM hidden_memories
WHERE tenant_id = %(tenant)s AND erasure_id = %(erasure_id)s AND memory_id > %(after)s
ORDER BY memory_id LIMIT %(limit)s FOR UPDATE
"""


def keep_vectors(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Keep callers' own vectors of memories whose others are about to be removed: nobody could make them again."""
    driver(tx).execute(_KEEP, {"tenant": tenant_id, "ids": Uuids(memory_ids)})


_KEEP: Final = """
INSERT INTO hidden_vectors (tenant_id, memory_id, space_id, text_version, vector)
SELECT %(tenant)s, memory_id, space_id, text_version, embedding FROM embeddings
WHERE tenant_id = %(tenant)s AND space_id = ANY (ARRAY(SELECT space_id FROM embedding_spaces))
  AND memory_id = ANY (%(ids)s) AND by_caller
ON CONFLICT DO NOTHING
"""


def put_back_vectors(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Let callers' own vectors be searched again, those of memories that are active."""
    driver(tx).execute(_PUT_BACK, {"tenant": tenant_id, "ids": Uuids(memory_ids)})


_PUT_BACK: Final = """
WITH back AS (
  DELETE FROM hidden_vectors WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)
  RETURNING space_id, memory_id, text_version, vector
)
INSERT INTO embeddings (tenant_id, space_id, memory_id, text_version, embedding, by_caller)
SELECT %(tenant)s, space_id, memory_id, text_version, vector, true FROM back
WHERE (
  SELECT tier FROM memory_state AS state
  WHERE state.tenant_id = %(tenant)s AND state.memory_id = back.memory_id) = 'active'
ORDER BY memory_id ON CONFLICT DO NOTHING
"""


def active_among(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Those of these memories that are active, in id order."""
    found = driver(tx).execute(_ACTIVE, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).fetchall()
    return [memory_id for (memory_id,) in found]


_ACTIVE: Final = """
SELECT memory_id FROM memory_state
WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND tier = 'active' ORDER BY memory_id
"""
