"""Figures about scores of labelled memories: ranking, kept shares at a threshold, and reliability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from scipy.stats import rankdata

from app.domain.salience.features import Floats
from ops.salience.examples import BETWEEN, NO, YES, Group

DRAWS: Final = 1_000
BINS: Final = 10


class Area(NamedTuple):
    """Area under the ROC curve, with its 95 % interval.

    Attributes:
        value: Chance that a memory that matters scores higher than one that doesn't.
        low: Lower end of the interval.
        high: Upper end.
        positives: Number of memories that matter.
    """

    value: float
    low: float
    high: float
    positives: int


def area(groups: Sequence[Group], scores: Sequence[Floats], role: str | None = None) -> Area:
    """Return the area over all memories of these groups, by role if one is given; the interval is bootstrapped."""
    return compute_area(*split_scores(groups, scores, role))


def compute_area(high: Floats, low: Floats) -> Area:
    """Return the area for the scores of memories that matter and of the others; the interval is bootstrapped."""
    random = np.random.default_rng(1)
    drawn = sorted(
        _area(random.choice(high, high.size), random.choice(low, low.size)) for _ in range(DRAWS if high.size else 0)
    )
    ends = (drawn[int(0.025 * DRAWS)], drawn[int(0.975 * DRAWS)]) if drawn else (np.nan, np.nan)
    return Area(_area(high, low), *ends, high.size)


def split_scores(groups: Sequence[Group], scores: Sequence[Floats], role: str | None = None) -> tuple[Floats, Floats]:
    """Return the scores of memories that matter, and of those that don't."""
    labels = np.concatenate([group.labels for group in groups])
    roles = np.concatenate([group.roles for group in groups])
    joined = np.concatenate(scores)
    chosen = np.ones(labels.size, np.bool_) if role is None else roles == role
    return joined[chosen & (labels == YES)], joined[chosen & (labels == NO)]


def _area(high: Floats, low: Floats) -> float:
    if not high.size or not low.size:
        return float("nan")
    ranks = rankdata(np.concatenate([high, low]))
    return float((ranks[: high.size].sum() - high.size * (high.size + 1) / 2) / (high.size * low.size))


def reliability(groups: Sequence[Group], chances: Sequence[Floats]) -> list[tuple[float, float, int]]:
    """Return mean chance, share that matters and number of memories for each tenth of the memories, lowest first."""
    labels = np.concatenate([group.labels for group in groups])
    joined = np.concatenate(chances)[labels != BETWEEN]
    matters = labels[labels != BETWEEN] == YES
    parts = np.array_split(np.argsort(joined, kind="stable"), BINS)
    return [(float(joined[part].mean()), float(matters[part].mean()), part.size) for part in parts if part.size]


def calibration_error(bins: Sequence[tuple[float, float, int]]) -> float:
    """Return the mean distance between chance and share over these bins of `reliability`, weighted by their sizes."""
    return sum(abs(mean - share) * size for mean, share, size in bins) / sum(size for *_, size in bins)
