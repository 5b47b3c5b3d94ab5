"""Explain why each result of a search was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import numpy as np
from msgspec import structs

from app.domain.search import result_explanation, scoring
from app.domain.search.request import SearchResult
from app.domain.strength.importance import Importance
from app.services.search.ranking_input import CandidateSet
from app.store.consolidation import merged_memories
from app.store.core import database
from app.store.enrichment import word_index
from app.store.strength import states

NOTHING: Final = frozenset[str](), frozenset[str]()


def explain_importances(
    tx: database.Transaction,
    tenant_id: UUID,
    cosines: Mapping[UUID, float],
    weighing: Importance,
    as_of: datetime | None = None,
) -> dict[UUID, dict[str, float]]:
    """Return, for each memory that still exists, its importance in this context and the four factors (seed 004 §1.5).

    Args:
        cosines: Each memory's cosine to the context; NaN without a vector.
        weighing: The policy's parameters of importance.
        as_of: Any time; None for now.
    """
    stored = states.read(tx, tenant_id, list(cosines))
    now = (as_of or database.now(tx)).timestamp()
    found = np.array([cosines[memory_id] for memory_id in stored.ids], np.float64)
    explained = result_explanation.explain_importance(weighing, stored.state, now, found)
    return dict(zip(stored.ids, explained, strict=True))


def add_explanations(
    tenant_id: UUID, results: Sequence[SearchResult], gathered: CandidateSet, as_of: datetime | None = None
) -> list[SearchResult]:
    """Add ranks, matching query words, origin, vitals and importance to the parts in each result's explanation.

    Args:
        results: The results to return. Results reached by spreading activation aren't among the candidates.
        gathered: The ranked candidates.
        as_of: The time as of which the search ranked; None for now.
    """
    candidates, lexemes = gathered.found, gathered.query.lexemes
    vitals = scoring.apply_context(gathered.vitals, candidates, gathered.ranking, gathered.policy.importance)
    shown = {result.id for result in results}
    cosines = {candidate.memory_id: candidate.cosine for candidate in candidates if candidate.memory_id in shown}
    with database.tenant(tenant_id) as tx:
        factors = explain_importances(tx, tenant_id, cosines, gathered.policy.importance, as_of)
        summaries = merged_memories.filter_summaries(tx, tenant_id, [result.id for result in results])
        lexemes_by_memory = word_index.find_lexemes(tx, tenant_id, [result.id for result in results], list(lexemes))
    places = {candidate.memory_id: place for place, candidate in enumerate(candidates)}
    ranks = result_explanation.rank_by_score(candidates)
    explained = []
    for result in results:
        place = places.get(result.id)
        own_lexemes, neighbour_lexemes = lexemes_by_memory.get(result.id, NOTHING)
        details: dict[str, Any] = {
            "ranks": ranks[place] if place is not None else result_explanation.UNRANKED,
            "matched": result_explanation.map_spellings(own_lexemes, gathered.asked, lexemes),
            "near": result_explanation.map_spellings(neighbour_lexemes, gathered.asked, lexemes),
            "made_by": "consolidation" if result.id in summaries else "caller",
        }
        if place is not None:
            details["vitals"] = result_explanation.explain_strength(vitals, place)
            details["importance"] = factors.get(result.id)
        explained.append(structs.replace(result, explain=(result.explain or {}) | details))
    return explained
