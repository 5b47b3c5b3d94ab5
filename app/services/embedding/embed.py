"""Embed memories: read their texts, compute vectors outside of transactions, and write those that are still valid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import numpy as np
import structlog
from numpy.typing import NDArray

from app.clients.embedding.embedder import EmbedderUnavailable
from app.clients.llm.resilience import ProviderFailed, Reason
from app.services.embedding import spaces
from app.services.embedding.windows import count_windows, embed_texts
from app.services.transient_errors import OverBudget
from app.store.core import database
from app.store.embedding import embedding_spaces, embeddings, windows
from app.store.embedding.embedding_spaces import Space, TenantSpaces
from app.store.embedding.embeddings import EmbeddingTexts
from app.store.embedding.windows import Windows

Vectors = tuple[NDArray[np.float32], Windows]
"""Vectors of memories, and of the windows of long memories."""

ROUNDS: Final = 3  # a tenant's spaces change rarely: hardly more than once while a batch is computed
WINDOWS_AT_ONCE: Final = 8_192
"""Approximate number of windows per call to the embedder; memories with more windows in total are embedded in parts."""
_UNKNOWN: Final = frozenset({Reason.NOT_FOUND, Reason.NOT_AUTHORISED, Reason.HOST_REFUSED})

log = structlog.get_logger(__name__)


def embed_memories(tenant_id: UUID, ids: Sequence[UUID]) -> int:
    """Embed memories in the tenant's embedding space, and in the target space of a move, as vectors of length 1.

    If the embedder of the tenant's space is no longer available, only the target space, or the settings' space, is
    written. The call is idempotent; memories deleted or edited in between are skipped.

    Returns:
        The number of memories that got a vector.

    Raises:
        OverBudget: The embedder is not free, and the tenant has reached its daily budget.
        ProviderFailed: The embedder's provider gave no usable answer.
        Misconfigured: The settings name an embedder that doesn't exist.
    """
    with database.tenant(tenant_id) as tx:
        there = embedding_spaces.read_tenant_spaces(tx, tenant_id)
        # Vectors of the preceding turns include the text of these memories, so they are recomputed too.
        ahead = spaces.needs_words(there)
        before = embeddings.find_preceding(tx, tenant_id, ids) if ahead else []
        texts = embeddings.read_texts(tx, tenant_id, list(dict.fromkeys([*ids, *before])), ahead=ahead)
        divided = windows.find_divided(tx, tenant_id, texts.ids) if (count := count_windows(texts)) else set()
    if not texts.ids:
        return 0
    if count > WINDOWS_AT_ONCE and len(ids) > 1:
        return embed_memories(tenant_id, ids[: len(ids) // 2]) + embed_memories(tenant_id, ids[len(ids) // 2 :])
    there = there or spaces.ensure_spaces(tenant_id)
    made = _VectorsBySpace(tenant_id, texts, divided)
    for _ in range(ROUNDS):
        ready = _vectors(there, made)
        with database.tenant(tenant_id) as tx:
            now = embedding_spaces.lock_tenant_spaces(tx, tenant_id) or there
            if now == there:
                written = max(_write(tx, tenant_id, space, texts, vectors) for space, vectors in ready.items())
                return min(written, len(ids))
            there = now
    raise RuntimeError("the tenant's embedding space changes faster than memories can be embedded")


class _VectorsBySpace:
    """The vectors of one batch by embedding space, each computed once."""

    def __init__(self, tenant_id: UUID, texts: EmbeddingTexts, divided: set[tuple[int, UUID]]) -> None:
        self.tenant_id = tenant_id
        self._texts = texts
        self._divided = divided
        self._vectors: dict[Space, Vectors] = {}

    def vectors(self, space: Space) -> Vectors:
        if space not in self._vectors:
            model = spaces.open_embedder(space)
            there = {memory_id for space_id, memory_id in self._divided if space_id == space.space_id}
            self._vectors[space] = embed_texts(self.tenant_id, model, self._texts, there)
        return self._vectors[space]


def _vectors(there: TenantSpaces, made: _VectorsBySpace) -> dict[Space, Vectors | None]:
    """Return the vectors to write by space; None for a target that is unavailable now, which the move fills later."""
    found: dict[Space, Vectors | None] = {}
    try:
        found[there.searched] = made.vectors(there.searched)
    except (EmbedderUnavailable, ProviderFailed) as error:
        if not _is_gone(error, there.searched):
            raise
        log.warning("embedding_space_gone", tenant=str(made.tenant_id), model=there.searched.model)
    is_searched = bool(found)
    if there.target is not None:
        try:
            found[there.target] = made.vectors(there.target)
        except (EmbedderUnavailable, OverBudget, ProviderFailed) as error:
            if not (is_searched or isinstance(error, EmbedderUnavailable)):
                raise
            found[there.target] = None
    if not is_searched and all(vectors is None for vectors in found.values()):
        own = spaces.ensure_settings_space()
        found[own] = made.vectors(own)
    return found


def _is_gone(error: EmbedderUnavailable | ProviderFailed, space: Space) -> bool:
    """Return whether a space's embedder is permanently unavailable; failures of the settings' provider are not."""
    if isinstance(error, ProviderFailed):
        return error.reason in _UNKNOWN and space != spaces.ensure_settings_space()
    return True


def _write(
    tx: database.Transaction, tenant_id: UUID, space: Space, texts: EmbeddingTexts, vectors: Vectors | None
) -> int:
    if vectors is None:
        embedding_spaces.forget(
            tx, tenant_id, space.space_id, texts.ids
        )  # otherwise vectors made with former neighbours remain
        return 0
    return embeddings.write(tx, tenant_id, space.space_id, texts, *vectors)
