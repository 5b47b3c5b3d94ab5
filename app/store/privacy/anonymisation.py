"""Delete data derived from an anonymised memory's former text, and count anonymised memories by legal ground."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

from app.store.search import recorded_searches


def forget(tx: Connection, tenant_id: UUID, memory_id: UUID) -> None:
    """Delete the memory's score, PCA sample and saved vector, which were derived from its former text.

    If it is a summary, the stored properties of its deleted sources are deleted, too: they may name the subject.

    Recorded searches with the memory among their candidates are deleted too, because they link it to the subject.
    """
    for statement in _FORGET:
        tx.execute(statement, {"tenant": tenant_id, "memory_id": memory_id})
    recorded_searches.delete_with(tx, tenant_id, [memory_id])


_FORGET: Final = [
    text(f"DELETE FROM {table} WHERE tenant_id = :tenant AND memory_id = :memory_id")  # noqa: S608 - constants
    for table in ("scores", "pca_samples", "hidden_vectors", "decayed_sources")
]


class AnonymisedCount(NamedTuple):
    """The number of memories anonymised on a legal ground, and the time of the latest anonymisation."""

    ground: str
    memories: int
    last_at: datetime


def count_anonymised(tx: Connection, tenant_id: UUID, digest: bytes, ground: str) -> None:
    """Count an anonymised memory under the digest of its subject or thread."""
    tx.execute(_NOTE, {"tenant": tenant_id, "digest": digest, "ground": ground})


_NOTE: Final = text("""
INSERT INTO anonymised AS known (tenant_id, digest, ground, memories) VALUES (:tenant, :digest, :ground, 1)
ON CONFLICT (tenant_id, digest, ground) DO UPDATE SET memories = known.memories + 1, last_at = now()
""")


def read_counts(tx: Connection, tenant_id: UUID, digests: Iterable[bytes]) -> list[AnonymisedCount]:
    """Return the counts under any of these digests, by ground."""
    return [AnonymisedCount(*row) for row in tx.execute(_NOTED, {"tenant": tenant_id, "digests": list(digests)})]


_NOTED: Final = text("""
SELECT ground, memories, last_at FROM anonymised
WHERE tenant_id = :tenant AND digest = ANY (CAST(:digests AS bytea[])) ORDER BY ground, last_at
""")


def delete_counts(tx: Connection, tenant_id: UUID, digests: Iterable[bytes]) -> None:
    """Delete the counts under these digests once they have been reported, because they could identify the subject."""
    tx.execute(_CLEAR, {"tenant": tenant_id, "digests": list(digests)})


_CLEAR: Final = text("DELETE FROM anonymised WHERE tenant_id = :tenant AND digest = ANY (CAST(:digests AS bytea[]))")
