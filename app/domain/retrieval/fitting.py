"""Weights of the parts of relevance fitted to what callers used: a proposal, judged on searches that it never saw.

A memory that was used shall rank above the results that stood above it and weren't used. The fit is logistic over such
pairs with a pull towards the present weights, so that few uses change little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.domain.dynamics.ops import Floats
from app.domain.retrieval.comparing import Interval, interval
from app.domain.retrieval.ranking import Ranking
from app.domain.retrieval.recorded import PARTS

USES_MIN: Final = 50
"""Searches with a use and a result above it that wasn't used, below which nothing is proposed."""
FOLDS: Final = 5
"""Spans of time; each is judged by weights that were fitted to the others."""
WEIGHT_MAX: Final = 10.0
SPREAD: Final = 0.5
"""Standard deviation of the weights around the present ones that is expected before anything was used."""
LEAST_CHANGE: Final = 0.01
STEPS: Final = 2000
_SETTLED: Final = 1e-7
_TEMPERATURES: Final = np.geomspace(0.01, 3.0, 40)


@dataclass(frozen=True, slots=True)
class Judged:
    """A search whose results somebody judged by using some.

    Attributes:
        features: Each result's parts without their weights, times what strength and importance lift them by, in the
            order of the answer, shape (n, parts).
        used: Whether each was used, shape (n,).
    """

    features: Floats
    used: np.typing.NDArray[np.bool_]

    def pairs(self) -> Floats:
        """Return the features of each used result less those of each unused one above it, shape (pairs, parts)."""
        rows = [
            self.features[place] - self.features[above]
            for place in np.flatnonzero(self.used)
            for above in range(place)
            if not self.used[above]
        ]
        return np.array(rows, np.float64).reshape(len(rows), len(PARTS))

    def reciprocal_rank(self, weights: Floats) -> float:
        """Return 1 / place of the best used result by these weights; of equals, the one answered first is above."""
        order = np.argsort(-(self.features @ weights), kind="stable")
        return 1.0 / (1 + int(np.argmax(self.used[order])))


@dataclass(frozen=True, slots=True)
class Proposal:
    """Weights that uses speak for.

    Attributes:
        searches: Searches with a use.
        pairs: Used results below results that weren't used.
        before: Mean reciprocal rank of the used results by the present weights.
        after: The same by fitted weights, each search by weights that were fitted without it and its time.
        difference: What they gain; None where nothing could be fitted.
        weights: Those that would change, by name, rounded; empty where nothing is proposed.
        reason: Why nothing is proposed; None where something is.
    """

    searches: int
    pairs: int
    before: float
    after: float
    difference: Interval | None
    weights: dict[str, float]
    reason: str | None


def propose(judged: Sequence[Judged], ranking: Ranking) -> Proposal:
    """Fit the weights, and propose them where held-out searches rank what was used higher beyond the interval.

    Args:
        judged: Searches with a use, oldest first.
        ranking: The present weights.
    """
    present = np.array([getattr(ranking, name) for name in PARTS], np.float64)
    pairs = [search.pairs() for search in judged]
    told = sum(len(each) > 0 for each in pairs)
    before = [search.reciprocal_rank(present) for search in judged]
    mean = float(np.mean(before)) if before else 0.0
    count = sum(map(len, pairs))
    if told < USES_MIN:
        few = f"{told} searches have a used result below one that wasn't used: a fit needs at least {USES_MIN}"
        return Proposal(len(judged), count, mean, mean, None, {}, few)
    after = np.empty(len(judged))
    for fold in np.array_split(np.arange(len(judged)), FOLDS):
        held_out = set(fold.tolist())
        weights = fit([each for place, each in enumerate(pairs) if place not in held_out], present)
        after[fold] = [judged[place].reciprocal_rank(weights) for place in fold]
    gain = interval(after - np.array(before))
    fitted = np.round(fit(pairs, present), 2)
    changed = {
        name: float(weight)
        for name, weight, was in zip(PARTS, fitted, present, strict=True)
        if abs(weight - was) >= LEAST_CHANGE
    }
    reason: str | None = None
    if gain.low <= 0:
        reason = "fitted weights don't rank what was used higher in held-out searches, beyond the interval"
    elif not changed:
        reason = "the fitted weights are the present ones"
    return Proposal(len(judged), count, mean, float(after.mean()), gain, {} if reason else changed, reason)


def fit(pairs: Sequence[Floats], present: Floats) -> Floats:
    """Return weights of 0 to 10 with the sum of the present ones, by which used results rank above unused ones.

    Each search counts the same, however many pairs it has.

    Args:
        pairs: Features of a used result less those of an unused one above it, by search, shape (pairs, parts) each.
        present: The present weights, shape (parts,).
    """
    told = [each for each in pairs if len(each)]
    rows = np.concatenate(told)
    shares = np.concatenate([np.full(len(each), 1 / (len(each) * len(told))) for each in told])
    rows = rows / _temperature(rows @ present, shares)
    pull = 1 / (SPREAD**2 * len(told))
    weights = _descend(rows, shares, present, pull)
    total = float(weights.sum())
    return np.clip(weights * (present.sum() / total), 0, WEIGHT_MAX) if total > 0 else present


def _temperature(margins: Floats, shares: Floats) -> float:
    """Return the unit of scores in which the present weights explain the uses best.

    Weights are then fitted in it: else all of them would grow or shrink together, which changes no ranking.
    """
    losses = [float(shares @ np.logaddexp(0, -margins / unit)) for unit in _TEMPERATURES]
    return float(_TEMPERATURES[int(np.argmin(losses))])


def _descend(rows: Floats, shares: Floats, present: Floats, pull: float) -> Floats:
    """Minimise the loss by projected gradient steps with momentum; it is convex, so every start ends the same."""
    step = 1 / (0.25 * float(np.linalg.norm(rows * np.sqrt(shares)[:, None], 2) ** 2) + pull)
    weights = ahead = present
    momentum = 1.0
    for _ in range(STEPS):
        chance = 0.5 * (1 - np.tanh(rows @ ahead / 2))  # that the pair is the wrong way round
        gradient = -rows.T @ (shares * chance) + pull * (ahead - present)
        moved = np.clip(ahead - step * gradient, 0, WEIGHT_MAX)
        if np.abs(moved - ahead).max() < _SETTLED:
            return moved
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = moved + (momentum - 1) / following * (moved - weights)
        weights, momentum = moved, following
    return weights
