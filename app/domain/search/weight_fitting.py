"""Fit the weights of relevance to the results that callers used, and evaluate the fit on held-out searches.

The training signal is pairwise: a used result should rank above each unused result of the same response, because
callers receive a response as a whole. The fit is a logistic regression on such pairs with a penalty towards the current
weights, so that few uses change little. A used result is paired with all unused results, because pairs with only the
unused results above it would always contradict the current weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.domain.dynamics.ops import Floats
from app.domain.search.parameters import Ranking
from app.domain.search.policy_comparison import MeanInterval, mean_interval
from app.domain.search.search_record import PARTS

USES_MIN: Final = 50
"""Minimum number of searches with both a used and an unused result for a proposal."""
FOLDS: Final = 5
"""Number of time spans; each is evaluated with weights fitted to the others."""
WEIGHT_MAX: Final = 10.0
SPREAD: Final = 0.5
"""Prior standard deviation of the weights around the current ones."""
LEAST_CHANGE: Final = 0.01
STEPS: Final = 100
_SETTLED: Final = 1e-10
_SHRINKS: Final = tuple(0.5**power for power in range(30))
_TEMPERATURES: Final = np.geomspace(0.01, 3.0, 40)


@dataclass(frozen=True, slots=True)
class JudgedSearch:
    """A search with the results that its caller used.

    Attributes:
        features: Unweighted parts of each result times its factors (such as strength and importance), in the order of
            the response, shape (n, parts).
        used: True for each result that was used, shape (n,).
    """

    features: Floats
    used: np.typing.NDArray[np.bool_]

    def pairs(self) -> Floats:
        """Return the feature differences between each used and each unused result, shape (pairs, parts)."""
        used, unused = self.features[self.used], self.features[~self.used]
        return (used[:, None, :] - unused[None, :, :]).reshape(-1, len(PARTS))

    def reciprocal_rank(self, weights: Floats) -> float:
        """Return 1 / rank of the best used result under these weights; ties keep the order of the response."""
        order = np.argsort(-(self.features @ weights), kind="stable")
        return 1.0 / (1 + int(np.argmax(self.used[order])))


@dataclass(frozen=True, slots=True)
class Proposal:
    """Fitted weights and the metrics that decide whether they are proposed.

    Attributes:
        searches: Number of searches with a use.
        pairs: Number of pairs of a used and an unused result.
        before: Mean reciprocal rank of the used results under the current weights.
        after: Mean reciprocal rank under weights fitted to the other time spans (cross-validation).
        difference: Gain in mean reciprocal rank; None if nothing could be fitted.
        weights: Proposed changes by name, rounded; empty if nothing is proposed.
        reason: Why nothing is proposed; None if something is.
    """

    searches: int
    pairs: int
    before: float
    after: float
    difference: MeanInterval | None
    weights: dict[str, float]
    reason: str | None


def propose_weights(judged: Sequence[JudgedSearch], ranking: Ranking) -> Proposal:
    """Fit the weights and propose them if the gain on held-out searches is significant (its interval is above 0).

    Args:
        judged: Searches with a use, oldest first.
    """
    present = np.array([getattr(ranking, name) for name in PARTS], np.float64)
    pairs = [search.pairs() for search in judged]
    informative = sum(len(differences) > 0 for differences in pairs)
    before = [search.reciprocal_rank(present) for search in judged]
    mean = float(np.mean(before)) if before else 0.0
    count = sum(map(len, pairs))
    if informative < USES_MIN:
        few = f"{informative} searches have both a used and an unused result: a fit needs at least {USES_MIN}"
        return Proposal(len(judged), count, mean, mean, None, {}, few)
    after = np.empty(len(judged))
    for fold in np.array_split(np.arange(len(judged)), FOLDS):
        held_out = set(fold.tolist())
        weights = fit_weights(
            [differences for place, differences in enumerate(pairs) if place not in held_out], present
        )
        after[fold] = [judged[place].reciprocal_rank(weights) for place in fold]
    gain = mean_interval(after - np.array(before))
    fitted = np.round(fit_weights(pairs, present), 2)
    changed = {
        name: float(weight)
        for name, weight, was in zip(PARTS, fitted, present, strict=True)
        if abs(weight - was) >= LEAST_CHANGE
    }
    reason: str | None = None
    if gain.low <= 0:
        reason = "the fitted weights don't rank used results significantly higher in held-out searches"
    elif not changed:
        reason = "the fitted weights equal the current weights"
    return Proposal(len(judged), count, mean, float(after.mean()), gain, {} if reason else changed, reason)


def fit_weights(pairs: Sequence[Floats], present: Floats) -> Floats:
    """Return weights, 0 to 10, that rank used results above unused ones and have the same sum as the current weights.

    Each search counts equally, however many pairs it has.

    Args:
        pairs: Feature differences between used and unused results, per search, shape (pairs, parts) each.
        present: The current weights, shape (parts,).
    """
    informative = [differences for differences in pairs if len(differences)]
    rows = np.concatenate(informative)
    shares = np.concatenate(
        [np.full(len(differences), 1 / (len(differences) * len(informative))) for differences in informative]
    )
    rows = rows / _temperature(rows @ present, shares)
    penalty = 1 / (SPREAD**2 * len(informative))
    weights = _minimise(rows, shares, present, penalty)
    total = float(weights.sum())
    return np.clip(weights * (present.sum() / total), 0, WEIGHT_MAX) if total > 0 else present


def _temperature(margins: Floats, shares: Floats) -> float:
    """Return the score unit in which the current weights explain the uses best.

    Weights are then fitted in this unit; otherwise all weights would grow or shrink together, which changes no ranking.
    """
    losses = [float(shares @ np.logaddexp(0, -margins / unit)) for unit in _TEMPERATURES]
    return float(_TEMPERATURES[int(np.argmin(losses))])


def _minimise(rows: Floats, shares: Floats, present: Floats, pull: float) -> Floats:
    """Minimise the loss, which is convex, by projected Newton steps.

    A weight at a bound stays fixed during a step if the gradient would push it beyond the bound.
    """
    weights, loss = present, _loss(present, rows, shares, present, pull)
    for _ in range(STEPS):
        wrong = 0.5 * (1 - np.tanh(rows @ weights / 2))  # probability that the pair is in the wrong order
        gradient = -rows.T @ (shares * wrong) + pull * (weights - present)
        is_fixed = ((weights <= 0) & (gradient > 0)) | ((weights >= WEIGHT_MAX) & (gradient < 0))
        free = np.flatnonzero(~is_fixed)
        curvature = (rows * (shares * wrong * (1 - wrong))[:, None]).T @ rows + pull * np.eye(len(present))
        direction = np.zeros_like(present)
        direction[free] = np.linalg.solve(curvature[np.ix_(free, free)], gradient[free])
        for shrink in _SHRINKS:
            candidate = np.clip(weights - shrink * direction, 0, WEIGHT_MAX)
            new_loss = _loss(candidate, rows, shares, present, pull)
            if new_loss < loss:
                break
        else:
            return weights
        gain, weights, loss = loss - new_loss, candidate, new_loss
        if gain < _SETTLED:
            return weights
    return weights


def _loss(weights: Floats, rows: Floats, shares: Floats, present: Floats, pull: float) -> float:
    return float(shares @ np.logaddexp(0, -rows @ weights) + pull / 2 * ((weights - present) ** 2).sum())
