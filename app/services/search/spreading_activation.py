"""Spreading activation: add neighbours of a search's best results (modes cmm and memory_decay)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from msgspec import structs

from app.domain.search import spreading_activation
from app.domain.search.request import SearchRequest, SearchResult
from app.domain.search.spreading_activation import SEEDS_MAX, ReachedMemory, SpreadingSettings
from app.services.search import candidate_strength
from app.store.core import database
from app.store.search import neighbours
from app.store.search.query_parts import SearchProbe


def spread_results(
    tenant_id: UUID,
    ranked: Sequence[SearchResult],
    request: SearchRequest,
    spreading: SpreadingSettings,
    probe: SearchProbe,
) -> list[SearchResult]:
    """Return the results and the memories reached from them, without duplicates, ordered by their highest score.

    Activation spreads from the best results to their neighbours, hop by hop, among memories that match the request's
    filters. A result whose score was passed on by another has the part `spread` in its explanation; `spread_from` and
    `spread_by` name that other result and the kind of neighbour.

    Args:
        ranked: Results, best first.
        spreading: Kinds of neighbours, share of the score passed on per hop, number of hops and minimum strength.
        probe: The query's words and vectors, with which memories were compared.
    """
    scores = {result.id: result.score for result in ranked}
    reached: dict[UUID, ReachedMemory] = {}
    frontier: Sequence[UUID] = [result.id for result in ranked[:SEEDS_MAX]]
    with database.tenant(tenant_id) as tx:
        for _ in range(spreading.hops):
            nearby = neighbours.find_neighbours(tx, tenant_id, frontier, spreading.ways, probe, request)
            raised = spreading_activation.spread_scores(scores, nearby, spreading.factor)
            scores |= {memory_id: memory.score for memory_id, memory in raised.items()}
            reached |= raised
            frontier = sorted(raised, key=lambda memory_id: -scores[memory_id])[:SEEDS_MAX]
        by_id = {result.id: result for result in ranked}
        described = neighbours.describe_memories(
            tx, tenant_id, [memory_id for memory_id in reached if memory_id not in by_id]
        )
        ids = list(described)
        places, vitals = candidate_strength.candidate_strengths(tx, tenant_id, ids, request.as_of)
    for place, strength in zip(places, vitals.strength.tolist(), strict=True):
        if strength >= spreading.strength_min:
            by_id[ids[place]] = SearchResult(**described[ids[place]], score=0.0, strength=strength)
    merged = [_mark_spread(result, reached.get(result.id), explain=request.explain) for result in by_id.values()]
    return sorted(merged, key=lambda result: (result.score, result.id), reverse=True)


def _mark_spread(result: SearchResult, reached: ReachedMemory | None, *, explain: bool) -> SearchResult:
    if reached is None:
        return result
    explanation: dict[str, Any] = {
        "spread": reached.score,
        "factors": {},
        "spread_from": str(reached.parent_id),
        "spread_by": reached.way,
    }
    return structs.replace(result, score=reached.score, explain=explanation if explain else None)
