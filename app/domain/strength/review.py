"""Schedule reviews of memories and order the due ones (seed 004 §4, seed 001)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Final

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.parameter_types import STRICT, Share

_Days = Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)]
_Easiness = Annotated[float, Field(ge=1, le=10, allow_inf_nan=False)]


BLENDS: Final = {"mnemex": 0.3}
"""Default share of a search's places for memories due for review, by profile; other profiles have none."""
BLEND_SCORE_MIN: Final = 0.65
"""Minimum share of the best result's score for a memory to be shown for review; less related memories aren't shown."""


@dataclass(frozen=True, config=STRICT)
class ReviewParameters:
    """Parameters of reviews; the defaults are seed 004's, and seed 001's for the danger zone."""

    first_interval_days: _Days = 1.0
    """I(1), also the interval after a failed review."""
    second_interval_days: _Days = 6.0
    """I(2)."""
    longest_interval_days: _Days = 36_500.0
    """Maximum interval; without it, intervals would exceed the calendar after about thirty reviews."""
    easiness_min: _Easiness = 1.3
    """Factor between intervals at importance 0."""
    easiness_max: _Easiness = 3.0
    """Factor between intervals at importance 1."""
    importance_weight: Share = 0.6
    """Weight of importance in the queue."""
    overdue_weight: Share = 0.4
    """Weight of a day overdue in the queue."""
    session_limit: Annotated[int, Field(ge=1, le=1_000)] = 20
    """Maximum number of memories per session."""
    danger_from: Share = 0.15
    """Lower bound of the danger zone, as a strength."""
    danger_to: Share = 0.35
    """Upper bound of the danger zone, as a strength."""
    blend: Share | None = None
    """Share of a search's places for memories due for review, unless the search sets `review_blend`; null for the
    profile's: 0.3 under `mnemex` (seed 001, blended results), 0 under the others."""

    @model_validator(mode="after")
    def _in_order(self) -> ReviewParameters:
        for low, high in (
            ("first_interval_days", "second_interval_days"),
            ("second_interval_days", "longest_interval_days"),
            ("easiness_min", "easiness_max"),
        ):
            if getattr(self, low) > getattr(self, high):
                raise ValueError(f"{low} must be at most {high}, not {getattr(self, low)} and {getattr(self, high)}")
        if self.danger_from >= self.danger_to:
            raise ValueError(f"danger_from must be below danger_to, not {self.danger_from} and {self.danger_to}")
        return self


def easiness(parameters: ReviewParameters, importance: Floats) -> Floats:
    """Return the factor between intervals: 1.3 + 1.7 · importance (seed 004 §4.1)."""
    return parameters.easiness_min + (parameters.easiness_max - parameters.easiness_min) * importance


def next_interval_days(parameters: ReviewParameters, interval_days: Floats, importance: Floats) -> Floats:
    """Return the days until the next review after a passed one: 1, 6, then times the easiness (SM-2, seed 004 §4.1).

    Args:
        parameters: First intervals and easiness.
        interval_days: The interval that just ended, 0 if there was none. Before a memory's first review and after a
            failed one, it is the first interval.
        importance: 0 to 1.

    Returns:
        Whole days, halves rounded up, at most the longest interval.
    """
    grown = np.floor(interval_days * easiness(parameters, importance) + 0.5)
    later = np.where(interval_days <= parameters.first_interval_days, parameters.second_interval_days, grown)
    interval = np.where(interval_days <= 0, parameters.first_interval_days, later)
    return np.minimum(interval, parameters.longest_interval_days)


def review_queue(parameters: ReviewParameters, importance: Floats, overdue_days: Floats) -> npt.NDArray[np.intp]:
    """Return the indexes of the memories to review now, most urgent first, limited to one session (seed 004 §4.2).

    Args:
        parameters: Weights and limit.
        importance: 0 to 1.
        overdue_days: Days since each was due; memories not due yet (below 0) are excluded.
    """
    order = np.argsort(-urgency(parameters, importance, overdue_days), kind="stable")
    return order[overdue_days[order] >= 0][: parameters.session_limit]


def urgency(parameters: ReviewParameters, importance: Floats, overdue_days: Floats) -> Floats:
    """Return 0.6 · importance + 0.4 · days overdue (seed 004 §4.2)."""
    return parameters.importance_weight * importance + parameters.overdue_weight * overdue_days


def preselect_queue(parameters: ReviewParameters, overdue_days: Floats) -> npt.NDArray[np.intp]:
    """Return the indexes of all memories that would be in the session at some importance, 0 to 1.

    The others are so much less overdue than a full session of memories that no importance could compensate.

    Args:
        parameters: Weights and limit.
        overdue_days: Days since each was due.
    """
    last = len(overdue_days) - parameters.session_limit
    if last <= 0 or parameters.overdue_weight == 0:
        return np.arange(len(overdue_days))
    threshold = np.partition(overdue_days, last)[last] - parameters.importance_weight / parameters.overdue_weight
    return np.flatnonzero(overdue_days >= threshold)


def danger_priority(parameters: ReviewParameters, strength: Floats) -> Floats:
    """Return the urgency of a review before the memory is forgotten, 0 to 1 (seed 001, review priority).

    An inverted parabola: 1 in the middle of the danger zone, 0 at its ends and outside.
    """
    position = (strength - parameters.danger_from) / (parameters.danger_to - parameters.danger_from)
    return np.maximum(1 - 4 * (position - 0.5) ** 2, 0.0)


def blend_share(wanted: float | None, parameters: ReviewParameters, profile: str) -> float:
    """Return the share of a search's places for memories due for review: the request's, the policy's or the profile's.

    Args:
        wanted: Share that the search sets, or None.
        parameters: Review parameters of the policy.
        profile: The policy's profile.
    """
    shares = (wanted, parameters.blend, BLENDS.get(profile))
    return next((share for share in shares if share is not None), 0.0)


def interleave(ranked: int, for_review: Sequence[int], share: float, limit: int) -> list[int]:
    """Give a share of a ranking's places to memories due for review (seed 001, blended results).

    With a share of 0.3 these are places 3, 6 and 10 of every ten. A memory already placed by its rank is not repeated.
    Once no memory due for review is left, the next memory by rank takes the place.

    Args:
        ranked: Number of ranked memories; 0 is the best.
        for_review: Ranks of the memories due for review, most urgent first.
        share: Share of the places, 0 to 1.
        limit: Maximum number of places.

    Returns:
        At most `limit` distinct ranks, in display order.
    """
    shown: dict[int, None] = {}
    due, others = iter(for_review), iter(range(ranked))
    for place in range(min(limit, ranked)):
        # The n-th review place is the last place up to n / share, less an epsilon because 10 · .3 may exceed 3.
        is_for_review = math.ceil((place + 2) * share - 1e-9) > math.ceil((place + 1) * share - 1e-9)
        sources = (due, others) if is_for_review else (others,)
        shown[next(rank for source in sources for rank in source if rank not in shown)] = None
    return list(shown)
