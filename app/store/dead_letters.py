"""Dead letters: what could not be done, with its reason, kept until a person replays or discards it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid4, uuid5

from sqlalchemy import Connection, text


def add(
    tx: Connection,
    tenant_id: UUID,
    *,
    stage: str,
    reason: str,
    attempts: int,
    entry_id: str | None = None,
    memory_ids: Sequence[UUID] = (),
    payload: bytes | None = None,
) -> UUID:
    """Keep what failed. An entry of the stream is kept once, however often that is asked for.

    Args:
        reason: A fixed phrase or an error's type; never content.
        payload: The envelope's body, where the failure is before storing.
    """
    letter_id = uuid4() if entry_id is None else uuid5(tenant_id, entry_id)
    values = {
        "tenant_id": tenant_id,
        "letter_id": letter_id,
        "stage": stage,
        "reason": reason,
        "attempts": attempts,
        "entry_id": entry_id,
        "memory_ids": list(memory_ids),
        "payload": payload,
    }
    tx.execute(_ADD, values)
    return letter_id


_ADD = text("""
INSERT INTO dead_letters (tenant_id, letter_id, stage, reason, attempts, entry_id, memory_ids, payload)
VALUES (:tenant_id, :letter_id, :stage, :reason, :attempts, :entry_id, CAST(:memory_ids AS uuid[]), :payload)
ON CONFLICT DO NOTHING
""")


def count(tx: Connection, tenant_id: UUID) -> int:
    """How many dead letters a tenant has."""
    return int(tx.execute(_COUNT, {"tenant_id": tenant_id}).scalar_one())


_COUNT = text("SELECT count(*) FROM dead_letters WHERE tenant_id = :tenant_id")
