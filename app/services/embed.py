"""Give memories their vectors: read, compute without a transaction, write what is still true."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from app.clients.embedder import embedder
from app.domain.embedding import unit
from app.store import database, embeddings


def embed(tenant_id: UUID, ids: Sequence[UUID]) -> int:
    """Embed these memories in the embedder's space, as vectors of length 1.

    Runs as often as one likes; memories that were deleted or edited meanwhile are passed over.

    Returns:
        How many vectors were written.
    """
    with database.tenant(tenant_id) as tx:
        texts = embeddings.read_texts(tx, tenant_id, ids)
    if not texts.ids:
        return 0
    model = embedder()
    vectors = model.embed_memories(texts.memories)
    if not model.normalised:
        vectors = unit(vectors)
    with database.tenant(tenant_id) as tx:
        space = embeddings.ensure_space(tx, model.model, model.dimensions, normalised=True)
        return embeddings.write(tx, tenant_id, space, texts, vectors)
