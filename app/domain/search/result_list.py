"""Rank candidates and convert them to results."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from app.domain.dynamics.ops import Floats
from app.domain.ingest.uses import Use
from app.domain.search import scoring, signals
from app.domain.search.candidate_types import Candidate, CandidateStrength
from app.domain.search.parameters import Ranking
from app.domain.search.request import SearchRequest, SearchResult


def rank_candidates(
    candidates: Sequence[Candidate],
    vitals: CandidateStrength,
    request: SearchRequest,
    ranking: Ranking,
    *,
    priming: Floats | None = None,
    now: datetime | None = None,
    parameters: object = None,
    soft_words: Floats | None = None,
) -> list[SearchResult]:
    """Return the best candidates as results, best first.

    Ties are broken by the higher memory id. Candidates with a score of 0 are dropped.

    Args:
        vitals: The candidates' time-dependent scores.
        ranking: The weights, including the request's own.
        priming: Factor on each candidate's score, 1 or more, shape (n,); None if nothing is primed.
        now: Reference time for expressions such as "yesterday", in the tenant's time zone; None ignores them.
        parameters: Parameters of the tenant's forgetting model, for modes that implement one.
        soft_words: Soft word match of each candidate, at least 0, shape (n,).
    """
    if not candidates:
        return []
    parts = signals.compute_parts(candidates, request.query, ranking, now, soft_words)
    blended = scoring.blend_scores(candidates, parts, vitals, ranking, priming, parameters)
    scores = blended.scores
    order = sorted(range(len(candidates)), key=lambda n: (scores[n], candidates[n].memory_id), reverse=True)
    return [
        _result(
            candidates[n],
            float(scores[n]),
            vitals,
            n,
            _explained(blended.parts, blended.factors, n) if request.explain else None,
        )
        for n in order[: request.limit]
        if scores[n] > 0
    ]


def list_uses(results: Sequence[SearchResult], candidates: Sequence[Candidate]) -> list[Use]:
    """Convert results to uses of their memories.

    The margin is the difference between a result's relevance (the best candidate has 1) and the highest relevance of
    all candidates ranked below it, returned or not.
    """
    shown = {result.id.int for result in results}
    by_id = {candidate.memory_id: candidate for candidate in candidates if candidate.memory_id.int in shown}
    best_below = max(
        (candidate.relevance for candidate in candidates if candidate.memory_id.int not in shown), default=0.0
    )
    uses = []
    for place in range(len(results) - 1, -1, -1):
        candidate = by_id.get(results[place].id)  # results added by spreading are not candidates
        relevance, lexical = (candidate.relevance, candidate.words > 0) if candidate else (0.0, False)
        margin = min(max(relevance - best_below, -1.0), 1.0)
        uses.append(Use(results[place].id, place=place, margin=margin, lexical=lexical))
        best_below = max(best_below, relevance)
    return uses[::-1]


def _explained(parts: signals.ScoreParts, factors: dict[str, Floats], place: int) -> dict[str, Any]:
    return {**parts.of_candidate(place), "factors": {name: float(factor[place]) for name, factor in factors.items()}}


def _result(
    found: Candidate, score: float, vitals: CandidateStrength, place: int, explained: dict[str, Any] | None
) -> SearchResult:
    fields: dict[str, Any] = {name: getattr(found, name) for name in _ALIKE}
    fields |= {"supersedes": found.supersedes or [], "superseded_by": found.superseded_by or []}
    fields["source"] = found.source or "unknown"
    fields["metadata"] = msgspec.json.decode(found.metadata) if found.metadata else {}
    return SearchResult(
        id=found.memory_id, score=score, strength=float(vitals.strength[place]), explain=explained, **fields
    )


_ALIKE: Final = tuple(name for name in Candidate.__struct_fields__ if name in SearchResult.__struct_fields__)
"""Fields that a result copies from its candidate."""
