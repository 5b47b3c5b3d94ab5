"""Judge what memories are worth, by rules: read, judge without a transaction, write what is still true."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from app.clients.embedder import embedder
from app.domain.salience import Evidence, judge
from app.store import database, embeddings, scores
from app.store.scores import Scored, Unscored

# How many earlier memories a new one is compared with for its novelty.
EARLIER_MEMORIES = 2000


def score(tenant_id: UUID, memory_ids: Sequence[UUID]) -> int:
    """Score these memories, but for those that the caller has scored.

    Returns:
        How many were scored.
    """
    model = embedder()
    with database.tenant(tenant_id) as tx:
        unscored = scores.read(tx, tenant_id, memory_ids)
        space = embeddings.find_space(tx, model.model, model.dimensions)
        ids, vectors = (
            scores.vectors(tx, tenant_id, space, [memory.memory_id for memory in unscored], EARLIER_MEMORIES)
            if unscored and space is not None
            else ([], np.empty((0, 0), dtype=np.float32))
        )
    nearest = dict(zip(ids, _nearest_earlier(vectors), strict=True))
    found = _judged(unscored, nearest)
    with database.tenant(tenant_id) as tx:
        return scores.write(tx, tenant_id, scores.HEURISTIC, found)


def _nearest_earlier(vectors: NDArray[np.float32]) -> list[float | None]:
    """Cosine of each vector to the nearest of those before it; None for the first.

    Args:
        vectors: shape (n, dimensions), of length 1, in the order of their coming.
    """
    if not len(vectors):
        return []
    similar = np.tril(vectors @ vectors.T, k=-1)
    return [None, *(float(value) for value in np.clip(similar[1:].max(axis=1), 0, 1))]


def _judged(unscored: Sequence[Unscored], nearest: dict[UUID, float | None]) -> list[Scored]:
    evidence = [
        Evidence(
            text=memory.text,
            speaker=memory.speaker,
            kind=memory.kind,
            tags=tuple(memory.tags),
            rarity=memory.rarity,
            nearest=nearest.get(memory.memory_id),
        )
        for memory in unscored
    ]
    return [
        Scored(
            memory_id=memory.memory_id,
            text_version=memory.text_version,
            emotional=judgement.criteria.emotional,
            novelty=judgement.criteria.novelty,
            actionable=judgement.criteria.actionable,
            personal=judgement.criteria.personal,
            salience=judgement.salience,
            uncertainty=judgement.uncertainty,
            inferred_kind=None if memory.kind else judgement.kind,
            inferred_entities=judgement.entities,
        )
        for memory, judgement in zip(unscored, judge(evidence), strict=True)
    ]
