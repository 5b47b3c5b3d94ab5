"""Decide which memories have earned promotion to permanent storage (seeds 000 and 001)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.mnemex import Mnemex, MnemexParameters
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import DAY_SECONDS, State

REASONS: Final = ("score", "uses")
"""Reasons for a promotion; the history stores the index."""
_DEFAULTS: Final = MnemexParameters()


def promotion_reasons(dynamics: Dynamics, state: State, now: float) -> npt.NDArray[np.str_]:
    """Return the reason for each memory's promotion, one of `REASONS`; empty if it isn't promoted.

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
