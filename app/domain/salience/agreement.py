"""Measure how far a model's ratings agree with the salience of the rules for the same texts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.domain.salience.llm_scoring import read_scorer_version

RATINGS_MAX: Final = 1000
"""Number of the last ratings that are compared."""
RATINGS_MIN: Final = 10
"""Minimum number of ratings for a rank correlation; fewer say too little."""


class ComparedRating(NamedTuple):
    """A rating of a text by a model and by the rules, 0 to 1 each.

    Attributes:
        version: Model and prompt version, from `scorer_version`.
    """

    version: str
    by_model: float
    by_rules: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of one model and prompt version with the rules.

    Attributes:
        ratings: Number of ratings compared.
        rank_correlation: Spearman's, -1 to 1; None with fewer than `RATINGS_MIN` ratings, or if all are equal.
        mean_difference: Mean of the model's salience minus the rules', -1 to 1.
    """

    model: str
    prompt_version: str
    ratings: int
    rank_correlation: float | None
    mean_difference: float


def compare(ratings: Sequence[ComparedRating]) -> list[Agreement]:
    """Return the agreement of each version among these ratings, in the order of its first rating."""
    by_version: dict[str, list[ComparedRating]] = defaultdict(list)
    for rating in ratings:
        by_version[rating.version].append(rating)
    return [_compare(version, group) for version, group in by_version.items()]


def _compare(version: str, ratings: Sequence[ComparedRating]) -> Agreement:
    by_model, by_rules = np.array([rating[1:] for rating in ratings], dtype=np.float64).T
    correlation = _rank_correlation(by_model, by_rules) if len(ratings) >= RATINGS_MIN else None
    return Agreement(
        *read_scorer_version(version), len(ratings), correlation, round(float(np.mean(by_model - by_rules)), 4)
    )


def _rank_correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float | None:
    ranks = np.stack([_ranks(first), _ranks(second)])
    ranks -= ranks.mean(axis=1, keepdims=True)
    spread = float(np.sqrt((ranks**2).sum(axis=1)).prod())
    return None if spread == 0 else round(float(ranks[0] @ ranks[1]) / spread, 4)


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the ranks of values; equal values share their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last: NDArray[np.float64] = np.cumsum(counts).astype(np.float64)
    return (last - (counts - 1) / 2)[inverse]
