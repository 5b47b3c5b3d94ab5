"""Decide which memories have earned promotion to permanent storage (seeds 000 and 001)."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic.dataclasses import dataclass

from app.domain.dynamics.mnemex import Mnemex, MnemexParameters
from app.domain.dynamics.parameter_types import STRICT
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import DAY_SECONDS, State

REASONS: Final = ("score", "uses", "manual")
"""Reasons for a promotion; the history stores the index. `manual`: a caller promoted the memory."""
_DEFAULTS: Final = MnemexParameters()


@dataclass(frozen=True, config=STRICT)
class Promotion:
    """Effect of promotion. The criteria are parameters of `mnemex`; other models use the defaults of `mnemex`."""

    keeps: bool = False
    """Decay neither moves nor deletes promoted memories (seed 001, "retained")."""


class Criterion(NamedTuple):
    """A criterion of promotion that a memory doesn't meet.

    Attributes:
        name: The measured value: `score`, `uses` or `age_days`.
        message: The comparison, as a predicate of the value.
        value: The memory's value.
        limit: The value that promotes.
    """

    name: str
    message: str
    value: float
    limit: float

    @property
    def gap(self) -> float:
        """Distance of the value from the limit."""
        return abs(self.value - self.limit)


def promotion_reasons(dynamics: Dynamics, state: State, now: float) -> npt.NDArray[np.str_]:
    """Return the reason for each memory's promotion, `score` or `uses`; empty if it isn't promoted.

    Only mnemex promotes by score, with its own parameters and use count (a new memory has 1). In other models the score
    is the strength, which is 1 for every new memory. Five uses within 14 days of creation promote in every model.

    Args:
        now: Seconds since 1970.
    """
    by_score: npt.NDArray[Any]
    if isinstance(dynamics, Mnemex):
        by_score = dynamics.score(state, now) >= dynamics.parameters.promote_from
        promoted = dynamics.promoted(state, now)
    else:
        by_score = np.zeros(state.level.shape, np.bool_)
        young = now - state.created_at <= _DEFAULTS.promote_window_days * DAY_SECONDS
        promoted = young & (state.access_count >= _DEFAULTS.promote_uses)
    return np.where(by_score, "score", np.where(promoted, "uses", ""))


def list_unmet(dynamics: Dynamics, state: State, now: float) -> list[Criterion]:
    """Return the unmet criteria of one memory that `promotion_reasons` doesn't promote.

    The score alone would promote it (mnemex only), or enough uses at an age within the window.

    Args:
        state: The memory's state; arrays of shape (1,).
        now: Seconds since 1970.
    """
    is_mnemex = isinstance(dynamics, Mnemex)
    parameters = dynamics.parameters if isinstance(dynamics, Mnemex) else _DEFAULTS
    uses = int(state.access_count[0]) + is_mnemex
    age_days = float(now - state.created_at[0]) / DAY_SECONDS
    unmet = []
    if is_mnemex:
        score = float(dynamics.score(state, now)[0])
        unmet.append(Criterion("score", "is too low", score, parameters.promote_from))
    if uses < parameters.promote_uses:
        unmet.append(Criterion("uses", "are too few", uses, parameters.promote_uses))
    if age_days > parameters.promote_window_days:
        unmet.append(Criterion("age_days", "is past the window for uses", age_days, parameters.promote_window_days))
    return unmet


def earliest_creation(dynamics: Dynamics, now: float) -> float:
    """Return the earliest creation of a memory that can be promoted, in seconds since 1970; -inf if age is irrelevant.

    Args:
        now: Seconds since 1970.
    """
    if isinstance(dynamics, Mnemex):
        return -np.inf
    return now - _DEFAULTS.promote_window_days * DAY_SECONDS
