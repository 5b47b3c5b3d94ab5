"""Compare recorded searches under two policies: changed results, and the ranks of memories used afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np

from app.domain.dynamics.ops import Floats

DEPTHS: Final = (1, 5, 10)
"""Cutoffs: how many of the top memories are compared."""
RECALL_DEPTH: Final = 10
RESAMPLES: Final = 2000
CONFIDENCE: Final = 0.95
_SEED: Final = 31
_BATCH: Final = 100


@dataclass(frozen=True, slots=True)
class ReplayedSearch:
    """A recorded search under both policies.

    Attributes:
        search_id: Id of the recorded search.
        before: Memories ranked by the current policy, best first.
        after: Memories ranked by the other policy, best first.
        results: Results returned at the time, in their order.
        used: Memories that callers used afterwards.
    """

    search_id: UUID
    before: Sequence[UUID]
    after: Sequence[UUID]
    results: Sequence[UUID]
    used: frozenset[UUID]


class MeanInterval(NamedTuple):
    """A mean over searches with its 95 % confidence interval."""

    mean: float
    low: float
    high: float


class UsedRank(NamedTuple):
    """Rank metrics of the memories used afterwards: means over searches, 0 to 1.

    Attributes:
        recall: Share of the used memories in the top ten.
        reciprocal_rank: 1 / rank of the best used memory; 0 if it isn't ranked.
    """

    recall: float
    reciprocal_rank: float


@dataclass(frozen=True, slots=True)
class UsedRanks:
    """Rank metrics of the used memories under both policies.

    Attributes:
        searches: Number of searches with at least one used memory.
        uses: Number of used memories over all searches.
        before: Metrics under the current policy.
        after: Metrics under the other policy.
        recall: Difference in recall.
        reciprocal_rank: Difference in reciprocal rank.
    """

    searches: int
    uses: int
    before: UsedRank
    after: UsedRank
    recall: MeanInterval
    reciprocal_rank: MeanInterval


@dataclass(frozen=True, slots=True)
class Comparison:
    """Differences between the rankings of two policies.

    Attributes:
        searches: Number of searches compared.
        changed: Searches whose set of top memories differs, by cutoff.
        overlap: Mean share of the top memories that both rankings have, by cutoff; 1 without searches.
        as_answered: Number of searches for which the current policy still gives exactly the results returned then.
        uses: Metrics of used memories; None if none were used.
    """

    searches: int
    changed: dict[int, int]
    overlap: dict[int, float]
    as_answered: int
    uses: UsedRanks | None


def compare_policies(pairs: Sequence[ReplayedSearch]) -> Comparison:
    """Compare searches under two policies."""
    changed = dict.fromkeys(DEPTHS, 0)
    shared: dict[int, list[float]] = {depth: [] for depth in DEPTHS}
    for pair in pairs:
        for depth in DEPTHS:
            before, after = set(pair.before[:depth]), set(pair.after[:depth])
            changed[depth] += before != after
            shared[depth].append(len(before & after) / max(len(before), len(after), 1))
    return Comparison(
        searches=len(pairs),
        changed=changed,
        overlap={depth: float(np.mean(shares)) if shares else 1.0 for depth, shares in shared.items()},
        as_answered=sum(list(pair.before[: len(pair.results)]) == list(pair.results) for pair in pairs),
        uses=_uses([pair for pair in pairs if pair.used]),
    )


def _uses(pairs: Sequence[ReplayedSearch]) -> UsedRanks | None:
    if not pairs:
        return None
    before = np.array([(recall(pair.before, pair.used), reciprocal_rank(pair.before, pair.used)) for pair in pairs])
    after = np.array([(recall(pair.after, pair.used), reciprocal_rank(pair.after, pair.used)) for pair in pairs])
    return UsedRanks(
        searches=len(pairs),
        uses=sum(len(pair.used) for pair in pairs),
        before=UsedRank(*before.mean(axis=0).tolist()),
        after=UsedRank(*after.mean(axis=0).tolist()),
        recall=mean_interval(after[:, 0] - before[:, 0]),
        reciprocal_rank=mean_interval(after[:, 1] - before[:, 1]),
    )


def recall(order: Sequence[UUID], used: frozenset[UUID]) -> float:
    """Return the share of the used memories in the top ten."""
    return len(used.intersection(order[:RECALL_DEPTH])) / len(used)


def reciprocal_rank(order: Sequence[UUID], used: frozenset[UUID]) -> float:
    """Return 1 / rank of the best used memory, counting from 1; 0 if none is ranked."""
    return next((1 / place for place, memory_id in enumerate(order, 1) if memory_id in used), 0.0)


def mean_interval(differences: Floats) -> MeanInterval:
    """Return the mean and its percentile bootstrap interval over searches; deterministic.

    Args:
        differences: One per search, shape (n,), at least one.
    """
    random = np.random.default_rng(_SEED)
    count = len(differences)
    means = np.concatenate(
        [differences[random.integers(0, count, (_BATCH, count))].mean(axis=1) for _ in range(RESAMPLES // _BATCH)]
    )
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return MeanInterval(float(differences.mean()), float(low), float(high))
