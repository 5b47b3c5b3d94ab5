"""Orders of memories by what a method would keep, and the curve of what is found if only the first share is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Order = npt.NDArray[np.intp]
"""Places of the memories, the first to be kept first."""

SHARES: Final = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
HALF: Final = SHARES.index(0.5)
RANDOM_ORDERS: Final = 3
_RESAMPLES: Final = 1000


def order_by(*keys: npt.NDArray[np.generic]) -> Order:
    """Return the order of memories by these values, the largest first; later keys, then later turns, break ties."""
    count = len(keys[0])
    ascending = np.lexsort((np.arange(count), *(np.asarray(key, np.float64) for key in reversed(keys))))
    return ascending[::-1].astype(np.intp)


def keep(order: Order, share: float) -> Bools:
    """Return a mask of the first share of an order, shape (n,); at least one memory."""
    kept = np.zeros(len(order), bool)
    kept[order[: max(1, round(share * len(order)))]] = True
    return kept


def oracle(evidence: Sequence[Sequence[int]], count: int, chance: np.random.Generator) -> Order:
    """Return the order that keeps as much evidence as possible for each share.

    A memory's value is the sum over the questions of its share of the question's evidence, so the mean share of
    evidence kept is the sum of the values kept. Memories without value have a random order.

    Args:
        evidence: Places of each question's evidence.
        count: Number of memories.
    """
    value = np.zeros(count)
    for places in evidence:
        value[list(places)] += 1 / len(places)
    return order_by(value, chance.random(count))


def evidence_kept(evidence: Sequence[Sequence[int]], kept: Bools) -> list[float]:
    """Return the share of each question's evidence that is kept."""
    return [float(kept[list(places)].mean()) for places in evidence]


def area(relative: Sequence[float], shares: Sequence[float] = SHARES) -> float:
    """Return the area under a curve from (0, 0) through its points, by trapezoids; 1 if even one memory finds all."""
    return float(np.trapezoid([0.0, *relative], [0.0, *shares]))


def relative_to(found: Floats, reference: Floats) -> float:
    """Return the mean of what is found as a share of the reference's mean; 0 if the reference finds nothing."""
    return float(found.mean() / reference.mean()) if reference.any() else 0.0


def half_interval(found: Floats, reference: Floats, seed: int) -> float:
    """Return half the width of the 95 % interval of `relative_to`, from resampled questions.

    Args:
        found: Shares of the evidence found, one per question, shape (q,).
        reference: The same questions asked of all memories, shape (q,).
    """
    rows = np.random.default_rng(seed).integers(0, len(found), (_RESAMPLES, len(found)))
    below = reference[rows].mean(axis=1)
    ratios = np.divide(found[rows].mean(axis=1), below, out=np.zeros(_RESAMPLES), where=below > 0)
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(high - low) / 2


def mean_curves(curves: Sequence[Mapping[str, Floats]]) -> dict[str, Floats]:
    """Return the mean of several curves of one method, by measure; every array has shape (shares, questions)."""
    return {name: np.mean([curve[name] for curve in curves], axis=0) for name in curves[0]}
