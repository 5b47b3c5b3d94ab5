"""The three pillars of seed 003, "Key Ideas": retrieval, forgetting and plausibility, and their weighted sum."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from app.domain.simulation.measures import Hits
from app.domain.simulation.year import Year

WEIGHTS: Final[dict[str, float]] = {"retrieval": 0.40, "forgetting": 0.35, "plausibility": 0.25}
"""Weights of the pillars (seed 003, "Key Ideas")."""


@dataclass(frozen=True)
class Pillars:
    """The three pillars of a forgetting policy on the last day of a year.

    Attributes:
        retrieval: Mean of recall and mean reciprocal rank over all questions, in the ten results of a default search;
            0 to 1.
        forgetting: Share of the chatter that is no longer active, 0 to 1.
        plausibility: Rank correlation (Spearman's) of the strength of a fact and the share of its questions whose
            answer was found, -1 to 1; None if the policy has no strength, or if all facts are equal in one of the two.
    """

    retrieval: float
    forgetting: float
    plausibility: float | None

    @property
    def weighted_sum(self) -> float:
        """Sum of the pillars times `WEIGHTS`; a missing plausibility counts as 0."""
        return sum(weight * (getattr(self, name) or 0.0) for name, weight in WEIGHTS.items())


def compute_pillars(
    year: Year, hits: Hits, unimportant_active: float, strengths: Mapping[int, float] | None
) -> Pillars:
    """Compute the pillars of a forgetting policy.

    Args:
        hits: Results of default searches, by question.
        unimportant_active: Share of the chatter that is still active.
        strengths: Strength of each remaining memory, by its index in `year.said`; a deleted memory has strength 0.
            None if the policy has no strength.
    """
    ranks = [_reciprocal_rank(fact.places, found) for (fact, _), found in zip(year.questions, hits, strict=True)]
    recall = float(np.mean([rank > 0 for rank in ranks])) if ranks else 0.0
    mean_rank = float(np.mean(ranks)) if ranks else 0.0
    plausibility = None
    if strengths is not None:
        found_by_fact: dict[tuple[int, ...], list[bool]] = defaultdict(list)
        for (fact, _), rank in zip(year.questions, ranks, strict=True):
            found_by_fact[fact.places].append(rank > 0)
        strength = [max(strengths.get(place, 0.0) for place in places) for places in found_by_fact]
        plausibility = rank_correlation(strength, [float(np.mean(found)) for found in found_by_fact.values()])
    return Pillars((recall + mean_rank) / 2, 1 - unimportant_active, plausibility)


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation, -1 to 1, with mean ranks for ties; None if either sequence is constant."""
    if len(set(first)) < 2 or len(set(second)) < 2:
        return None
    return float(np.corrcoef(_ranks(first), _ranks(second))[0, 1])


def _ranks(values: Sequence[float]) -> npt.NDArray[np.float64]:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: npt.NDArray[np.float64] = (ends - (counts - 1) / 2)[inverse]
    return ranks


def _reciprocal_rank(places: Sequence[int], found: Sequence[int]) -> float:
    """Return 1 / rank of the first result that states the fact; 0 if none does."""
    return next((1 / rank for rank, place in enumerate(found, start=1) if place in places), 0.0)
