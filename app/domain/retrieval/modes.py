"""From relevance to the score: how strength, recency and importance count in it, by mode."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.dynamics.ops import Floats
from app.domain.retrieval.candidates import Vitals
from app.domain.retrieval.ranking import Ranking


@dataclass(frozen=True, slots=True)
class Blended:
    """Scores of the candidates, and by what their relevance was multiplied: by name, shape (n,)."""

    scores: Floats
    factors: dict[str, Floats]


def blend(relevance: Floats, vitals: Vitals, ranking: Ranking) -> Blended:
    """Relevance, lifted by strength, recency and importance: each by at most its weight."""
    factors = {
        name: 1 + weight * part
        for name, weight, part in (
            ("strength", ranking.strength, vitals.strength),
            ("recency", ranking.recency, vitals.recency),
            ("importance", ranking.importance, vitals.importance),
        )
        if weight
    }
    scores = relevance
    for factor in factors.values():
        scores = scores * factor
    return Blended(scores, factors)
