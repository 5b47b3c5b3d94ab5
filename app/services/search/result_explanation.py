"""Explain why each result of a search was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from msgspec import structs

from app.domain.search import result_explanation
from app.domain.search.request import SearchResult
from app.services.search.ranking_input import CandidateSet
from app.store.consolidation import merged_memories
from app.store.core import database
from app.store.enrichment import word_index

NOTHING: Final = frozenset[str](), frozenset[str]()


def add_explanations(tenant_id: UUID, results: Sequence[SearchResult], gathered: CandidateSet) -> list[SearchResult]:
    """Add ranks, matching query words, origin and vitals to the score parts in each result's explanation.

    Args:
        results: The results to return. Results reached by spreading activation aren't among the candidates.
        gathered: The ranked candidates.
    """
    candidates, lexemes = gathered.found, gathered.query.lexemes
    with database.tenant(tenant_id) as tx:
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
            details["vitals"] = result_explanation.explain_strength(gathered.vitals, place)
        explained.append(structs.replace(result, explain=(result.explain or {}) | details))
    return explained
