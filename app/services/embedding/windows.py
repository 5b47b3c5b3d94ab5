"""Compute the vectors of memories, and of the windows of long memories, in one call to the embedder."""

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
    """Return the total number of windows of these memories."""
    return sum(len(divide(memory.text)) for memory in texts.memories)


def embed_texts(
    tenant_id: UUID, model: Embedder, texts: EmbeddingTexts, divided: Collection[UUID] = ()
) -> tuple[NDArray[np.float32], Windows]:
    """Return the vectors of memories, shape (n, dimensions), and the windows of long memories with their vectors.

    A window is embedded like a memory with the same speaker and time but without neighbours.

    Args:
        tenant_id: The tenant whose budget is charged.
        divided: Memories whose windows are already stored and aren't computed again.

    Raises:
        OverBudget: The model is not free, and the tenant has reached its daily budget.
        ProviderFailed: Raised by the model.
    """
    spans = [
        (row, window, span)
        for row, (memory_id, memory) in enumerate(zip(texts.ids, texts.memories, strict=True))
        if memory_id not in divided
        for window, span in enumerate(divide(memory.text))
    ]
    window_texts = [
        MemoryText(memory.text[span.start : span.end], memory.speaker, memory.occurred_at)
        for memory, span in ((texts.memories[row], span) for row, _, span in spans)
    ]
    vectors = spaces.memory_vectors(tenant_id, model, [*texts.memories, *window_texts], memories=len(texts.memories))
    memory_count = len(texts.memories)
    window_rows = np.array([(window, *span) for _, window, span in spans], np.int32).reshape(-1, 3)
    return vectors[:memory_count], Windows(
        [texts.ids[row] for row, _, _ in spans], window_rows, vectors[memory_count:], frozenset(divided)
    )
