"""Make the vectors of memories, and those of the windows of the long ones, by one call to the embedder."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from app.clients.embedding.embedder import Embedder
from app.domain.text.embedding_input import MemoryText
from app.domain.text.windows import divide
from app.services.embedding import spaces
from app.store.embedding.embeddings import EmbeddingTexts
from app.store.embedding.windows import Windows


def count_windows(texts: EmbeddingTexts) -> int:
    """Return how many windows these memories have."""
    return sum(len(divide(memory.text)) for memory in texts.memories)


def embed_texts(
    tenant_id: UUID, model: Embedder, texts: EmbeddingTexts, divided: Collection[UUID] = ()
) -> tuple[NDArray[np.float32], Windows]:
    """Return the vectors of memories, shape (n, dimensions), and the windows of the long ones among them.

    A window is embedded as a memory of the same speaker and time without neighbours.

    Args:
        tenant_id: The tenant, on whose account it is.
        model: The embedder.
        texts: The memories.
        divided: Memories whose windows exist already.

    Raises:
        OverBudget: The tenant may spend no more today, and the model costs something.
        ProviderFailed: As the model raises it.
    """
    spans = [
        (n, place, span)
        for n, (memory_id, memory) in enumerate(zip(texts.ids, texts.memories, strict=True))
        if memory_id not in divided
        for place, span in enumerate(divide(memory.text))
    ]
    parts = [
        MemoryText(memory.text[span.start : span.end], memory.speaker, memory.occurred_at)
        for memory, span in ((texts.memories[n], span) for n, _, span in spans)
    ]
    vectors = spaces.memory_vectors(tenant_id, model, [*texts.memories, *parts], memories=len(texts.memories))
    own = len(texts.memories)
    rows = np.array([(place, *span) for _, place, span in spans], np.int32).reshape(-1, 3)
    return vectors[:own], Windows([texts.ids[n] for n, _, _ in spans], rows, vectors[own:], frozenset(divided))
