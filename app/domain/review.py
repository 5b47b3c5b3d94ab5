"""When a memory is reviewed, and which of the due ones first (seed 004 §4, seed 001)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.parameters import STRICT, Share

_Days = Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)]
_Easiness = Annotated[float, Field(ge=1, le=10, allow_inf_nan=False)]


@dataclass(frozen=True, config=STRICT)
class Review:
    """Parameters of reviews; the defaults are seed 004's, those of the danger zone seed 001's."""

    first_interval_days: _Days = 1.0
    """I(1), and what a failed review goes back to."""
    second_interval_days: _Days = 6.0
    """I(2)."""
    longest_interval_days: _Days = 36_500.0
    """Intervals grow up to here; else they would leave the calendar after some thirty reviews."""
    easiness_min: _Easiness = 1.3
    """Factor between intervals at importance 0."""
    easiness_max: _Easiness = 3.0
    """Factor between intervals at importance 1."""
    importance_weight: Share = 0.6
    """What importance counts in the queue."""
    overdue_weight: Share = 0.4
    """What a day overdue counts in the queue."""
    session_limit: Annotated[int, Field(ge=1, le=1_000)] = 20
    """Most memories in a session."""
    danger_from: Share = 0.15
    """Strength at which the danger zone begins."""
    danger_to: Share = 0.35
    """Strength at which it ends."""

    @model_validator(mode="after")
    def _in_order(self) -> Review:
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


def easiness(parameters: Review, importance: Floats) -> Floats:
    """Factor between intervals: 1.3 + 1.7 · importance (seed 004 §4.1)."""
    return parameters.easiness_min + (parameters.easiness_max - parameters.easiness_min) * importance


def next_interval_days(parameters: Review, interval_days: Floats, importance: Floats) -> Floats:
    """Days until the next review after a successful one: 1, 6, then times the easiness (SM-2, seed 004 §4.1).

    Args:
        parameters: First intervals and easiness.
        interval_days: The interval that has just ended; 0 before the first review. A failed review goes back to the
            first interval, whatever came before.
        importance: 0 to 1.

    Returns:
        Whole days, halves rounded up, at most the longest interval.
    """
    grown = np.floor(interval_days * easiness(parameters, importance) + 0.5)
    later = np.where(interval_days <= parameters.first_interval_days, parameters.second_interval_days, grown)
    interval = np.where(interval_days <= 0, parameters.first_interval_days, later)
    return np.minimum(interval, parameters.longest_interval_days)


def queue(parameters: Review, importance: Floats, overdue_days: Floats) -> npt.NDArray[np.intp]:
    """Places of the memories to review now, most urgent first, at most a session's worth (seed 004 §4.2).

    Args:
        parameters: Weights and limit.
        importance: 0 to 1.
        overdue_days: Days since each was due; what isn't due yet (below 0) is left out.
    """
    urgency = parameters.importance_weight * importance + parameters.overdue_weight * overdue_days
    order = np.argsort(-urgency, kind="stable")
    return order[overdue_days[order] >= 0][: parameters.session_limit]


def danger_priority(parameters: Review, strength: Floats) -> Floats:
    """How urgently a memory wants review before it is forgotten, 0 to 1 (seed 001, review priority).

    1 in the middle of the danger zone, falling to 0 at its ends as an inverted parabola, 0 outside.
    """
    place = (strength - parameters.danger_from) / (parameters.danger_to - parameters.danger_from)
    return np.maximum(1 - 4 * (place - 0.5) ** 2, 0.0)
