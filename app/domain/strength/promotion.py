"""Which memories have earned a place for good (seeds 000 and 001)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.mnemex import Mnemex, MnemexParameters
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import DAY_SECONDS, State

REASONS: Final = ("score", "uses")
"""What a promotion is for; an event tells its place here."""
_DEFAULTS: Final = MnemexParameters()


def promoted_for(dynamics: Dynamics, state: State, now: float) -> npt.NDArray[np.str_]:
    """What each memory has earned a place for good with, one of `REASONS`; empty where it hasn't.

    The score can tell in mnemex alone, whose own parameters and count (a new memory has 1) hold there: elsewhere it
    is the strength, which is 1 for whatever is new. Five uses within 14 days of creation promote everywhere.

    Args:
        dynamics: The model of forgetting.
        state: The memories.
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
