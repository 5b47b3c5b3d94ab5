"""What is left of who a memory was about, beside its own row."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from sqlalchemy import Connection, text


def forget(tx: Connection, tenant_id: UUID, memory_id: UUID) -> None:
    """Delete what was worked out from its former text and isn't worked out anew: its score, its place in a sample."""
    for statement in _FORGET:
        tx.execute(statement, {"tenant": tenant_id, "memory_id": memory_id})


_FORGET: Final = [
    text(f"DELETE FROM {table} WHERE tenant_id = :tenant AND memory_id = :memory_id")  # noqa: S608 - constants
    for table in ("scores", "pca_samples", "hidden_vectors")
]
