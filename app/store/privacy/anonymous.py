"""What is left of who a memory was about, beside its own row; and on what grounds such memories are kept."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

from app.store.search import searches


def forget(tx: Connection, tenant_id: UUID, memory_id: UUID) -> None:
    """Delete the memory's score and sample, which were computed from its former text and aren't computed again.

    Recorded searches that had the memory among their candidates are deleted too: they found it as the subject's.
    """
    for statement in _FORGET:
        tx.execute(statement, {"tenant": tenant_id, "memory_id": memory_id})
    searches.delete_with(tx, tenant_id, [memory_id])


_FORGET: Final = [
    text(f"DELETE FROM {table} WHERE tenant_id = :tenant AND memory_id = :memory_id")  # noqa: S608 - constants
    for table in ("scores", "pca_samples", "hidden_vectors")
]


class Kept(NamedTuple):
    """Memories that were made anonymous: on what ground, how many, and when the last of them was."""

    ground: str
    memories: int
    last_at: datetime


def note(tx: Connection, tenant_id: UUID, digest: bytes, ground: str) -> None:
    """Count a memory that was made anonymous, by the digest of whom it was about, or of its thread."""
    tx.execute(_NOTE, {"tenant": tenant_id, "digest": digest, "ground": ground})


_NOTE: Final = text("""
INSERT INTO anonymised AS known (tenant_id, digest, ground, memories) VALUES (:tenant, :digest, :ground, 1)
ON CONFLICT (tenant_id, digest, ground) DO UPDATE SET memories = known.memories + 1, last_at = now()
""")


def noted(tx: Connection, tenant_id: UUID, digests: Iterable[bytes]) -> list[Kept]:
    """What was counted by any of these digests, by ground."""
    return [Kept(*row) for row in tx.execute(_NOTED, {"tenant": tenant_id, "digests": list(digests)})]


_NOTED: Final = text("""
SELECT ground, memories, last_at FROM anonymised
WHERE tenant_id = :tenant AND digest = ANY (CAST(:digests AS bytea[])) ORDER BY ground, last_at
""")


def clear(tx: Connection, tenant_id: UUID, digests: Iterable[bytes]) -> None:
    """Forget what was counted by these digests: a report has it, and nobody can be told from it any more."""
    tx.execute(_CLEAR, {"tenant": tenant_id, "digests": list(digests)})


_CLEAR: Final = text("DELETE FROM anonymised WHERE tenant_id = :tenant AND digest = ANY (CAST(:digests AS bytea[]))")
