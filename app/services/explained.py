"""Why a search has found what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from msgspec import structs

from app.domain.retrieval import explaining
from app.domain.retrieval.candidates import Candidate, Vitals
from app.domain.retrieval.request import SearchResult
from app.domain.retrieval.terms import Term, WeighedQuery
from app.store import database, words

NOTHING = frozenset[str](), frozenset[str]()


def explained(
    tenant_id: UUID,
    results: Sequence[SearchResult],
    found: Sequence[Candidate],
    alive: Vitals,
    asked: Sequence[Term],
    query: WeighedQuery,
) -> list[SearchResult]:
    """The results with their ranks, the query's words that they share, and their vitals, beside the parts of the score.

    Args:
        tenant_id: The tenant.
        results: What is shown; what a search has spread to isn't among `found`.
        found: The candidates.
        alive: What time has made of them.
        asked: The query's words.
        query: The same by rarity.
    """
    with database.tenant(tenant_id) as tx:
        said = words.said(tx, tenant_id, [result.id for result in results], list(query.lexemes))
    places = {candidate.memory_id: place for place, candidate in enumerate(found)}
    ranks = explaining.ranks(found)
    told = []
    for result in results:
        place = places.get(result.id)
        own, near = said.get(result.id, NOTHING)
        more: dict[str, Any] = {
            "ranks": ranks[place] if place is not None else explaining.UNRANKED,
            "matched": explaining.spelled(own, asked, query.lexemes),
            "near": explaining.spelled(near, asked, query.lexemes),
        }
        if place is not None:
            more["vitals"] = explaining.vitals(alive, place)
        told.append(structs.replace(result, explain=(result.explain or {}) | more))
    return told
