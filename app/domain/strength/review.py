"""When a memory is reviewed, and which of the due ones first (seed 004 §4, seed 001)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Final

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.parameters import STRICT, Share

_Days = Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)]
_Easiness = Annotated[float, Field(ge=1, le=10, allow_inf_nan=False)]


BLENDS: Final = {"mnemex": 0.3}
"""Share of a search's places that goes to memories for review unless the search says, by profile; else none."""
BLEND_SCORE_MIN: Final = 0.65
"""What of the best result's score a memory needs to be shown for its review: what has little to do with it doesn't."""


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
        interval_days: The interval that has just ended: the first one for a memory's first review, 0 for none at
            all. A failed review goes back to the first interval, whatever came before.
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
    order = np.argsort(-urgency(parameters, importance, overdue_days), kind="stable")
    return order[overdue_days[order] >= 0][: parameters.session_limit]


def urgency(parameters: Review, importance: Floats, overdue_days: Floats) -> Floats:
    """0.6 · importance + 0.4 · days overdue (seed 004 §4.2)."""
    return parameters.importance_weight * importance + parameters.overdue_weight * overdue_days


def foremost(parameters: Review, overdue_days: Floats) -> npt.NDArray[np.intp]:
    """Places of all memories that could be in the session, whatever their importance.

    One that is overdue for so much less than a session's worth of others that no importance makes up for it can't.

    Args:
        parameters: Weights and limit.
        overdue_days: Days since each was due.
    """
    last = len(overdue_days) - parameters.session_limit
    if last <= 0 or parameters.overdue_weight == 0:
        return np.arange(len(overdue_days))
    bar = np.partition(overdue_days, last)[last] - parameters.importance_weight / parameters.overdue_weight
    return np.flatnonzero(overdue_days >= bar)


def danger_priority(parameters: Review, strength: Floats) -> Floats:
    """How urgently a memory wants review before it is forgotten, 0 to 1 (seed 001, review priority).

    1 in the middle of the danger zone, falling to 0 at its ends as an inverted parabola, 0 outside.
    """
    place = (strength - parameters.danger_from) / (parameters.danger_to - parameters.danger_from)
    return np.maximum(1 - 4 * (place - 0.5) ** 2, 0.0)


def blend_share(wanted: float | None, profile: str) -> float:
    """The share of a search's places for memories that want review: what is asked for, else the profile's."""
    return BLENDS.get(profile, 0.0) if wanted is None else wanted


def interleave(ranked: int, for_review: Sequence[int], share: float, limit: int) -> list[int]:
    """A ranking with a share of its places given to memories that want review (seed 001, blended results).

    With a share of 0.3 these are the third, the sixth, and the tenth of each ten. A memory that its rank has brought
    in already doesn't come again, and where nothing is left for a place, the next by rank takes it.

    Args:
        ranked: How many memories were found; 0 is the best.
        for_review: Those of them that want review, the most urgent first.
        share: Of the places, 0 to 1.
        limit: Most places.

    Returns:
        At most `limit` of the memories, each once, in the order to show them.
    """
    shown: dict[int, None] = {}
    wanted, others = iter(for_review), iter(range(ranked))
    for place in range(min(limit, ranked)):
        # The n-th of them stands at the last place up to n / share; less a little, as 10 · .3 may be above 3.
        is_given = math.ceil((place + 2) * share - 1e-9) > math.ceil((place + 1) * share - 1e-9)
        sources = (wanted, others) if is_given else (others,)
        shown[next(found for source in sources for found in source if found not in shown)] = None
    return list(shown)
