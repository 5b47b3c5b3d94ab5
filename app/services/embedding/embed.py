"""Embed memories: read texts, compute vectors outside of transactions, and write vectors whose texts are unchanged."""

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

ROUNDS: Final = 3  # attempts; a tenant's spaces rarely change more than once while a batch is computed
WINDOWS_AT_ONCE: Final = 8_192
"""Approximate number of windows per call to the embedder; memories with more windows in total are embedded in parts."""
_UNKNOWN: Final = frozenset({Reason.NOT_FOUND, Reason.NOT_AUTHORISED, Reason.HOST_REFUSED})

log = structlog.get_logger(__name__)


def embed_memories(tenant_id: UUID, ids: Sequence[UUID]) -> int:
    """Embed memories in the tenant's embedding space, and in the target space of a move, as vectors of length 1.

    If the embedder of the tenant's space is no longer available, only the target space, or the settings' space, is
    written. The call is idempotent; memories deleted or edited while vectors are computed are skipped.

    Returns:
        The number of memories that got a vector.

    Raises:
        OverBudget: The embedder is not free, and the tenant has reached its daily budget.
        ProviderFailed: The embedder's provider gave no usable answer.
        Misconfigured: The settings name an embedder that doesn't exist.
    """
    with database.tenant(tenant_id) as tx:
        tenant_spaces = embedding_spaces.read_tenant_spaces(tx, tenant_id)
        # The vectors of preceding turns include the texts of these memories, so these vectors are recomputed too.
        ahead = spaces.needs_words(tenant_spaces)
        preceding = embeddings.find_preceding(tx, tenant_id, ids) if ahead else []
        texts = embeddings.read_texts(tx, tenant_id, list(dict.fromkeys([*ids, *preceding])), ahead=ahead)
        divided = windows.find_divided(tx, tenant_id, texts.ids) if (window_count := count_windows(texts)) else set()
    if not texts.ids:
        return 0
    if window_count > WINDOWS_AT_ONCE and len(ids) > 1:
        return embed_memories(tenant_id, ids[: len(ids) // 2]) + embed_memories(tenant_id, ids[len(ids) // 2 :])
    tenant_spaces = tenant_spaces or spaces.ensure_spaces(tenant_id)
    batch_vectors = _VectorsBySpace(tenant_id, texts, divided)
    for _ in range(ROUNDS):
        vectors_by_space = _vectors(tenant_spaces, batch_vectors)
        with database.tenant(tenant_id) as tx:
            current_spaces = embedding_spaces.lock_tenant_spaces(tx, tenant_id) or tenant_spaces
            if current_spaces == tenant_spaces:
                written = max(
                    _write(tx, tenant_id, space, texts, vectors) for space, vectors in vectors_by_space.items()
                )
                return min(written, len(ids))
            tenant_spaces = current_spaces
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
            divided_ids = {memory_id for space_id, memory_id in self._divided if space_id == space.space_id}
            self._vectors[space] = embed_texts(self.tenant_id, model, self._texts, divided_ids)
        return self._vectors[space]


def _vectors(there: TenantSpaces, made: _VectorsBySpace) -> dict[Space, Vectors | None]:
    """Return the vectors to write by space; None for a target that is unavailable now: the move fills it later."""
    vectors_by_space: dict[Space, Vectors | None] = {}
    try:
        vectors_by_space[there.searched] = made.vectors(there.searched)
    except (EmbedderUnavailable, ProviderFailed) as error:
        if not _is_gone(error, there.searched):
            raise
        log.warning("embedding_space_gone", tenant=str(made.tenant_id), model=there.searched.model)
    is_searched = bool(vectors_by_space)
    if there.target is not None:
        try:
            vectors_by_space[there.target] = made.vectors(there.target)
        except (EmbedderUnavailable, OverBudget, ProviderFailed) as error:
            if not (is_searched or isinstance(error, EmbedderUnavailable)):
                raise
            vectors_by_space[there.target] = None
    if not is_searched and all(vectors is None for vectors in vectors_by_space.values()):
        settings_space = spaces.ensure_settings_space()
        vectors_by_space[settings_space] = made.vectors(settings_space)
    return vectors_by_space


def _is_gone(error: EmbedderUnavailable | ProviderFailed, space: Space) -> bool:
    """Return True if a space's embedder is permanently unavailable; the settings' provider only fails temporarily."""
    if isinstance(error, ProviderFailed):
        return error.reason in _UNKNOWN and space != spaces.ensure_settings_space()
    return True


def _write(
    tx: database.Transaction, tenant_id: UUID, space: Space, texts: EmbeddingTexts, vectors: Vectors | None
) -> int:
    if vectors is None:
        # Otherwise vectors computed with former neighbours would remain.
        embedding_spaces.forget(tx, tenant_id, space.space_id, texts.ids)
        return 0
    return embeddings.write(tx, tenant_id, space.space_id, texts, *vectors)
