"""Determine the losses of a tenant's memories in a switch to another forgetting model."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.memory_decay import MemoryDecay
from app.domain.dynamics.mnemex import Mnemex
from app.domain.dynamics.profiles import rebase
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import State

LOSSES: Final = {
    "score_above_1": "a score above 1, which only mnemex has, becomes a strength of 1",
    "multiplier_0": "mnemex multiplies by the memory's multiplier, so its strength becomes 0",
    "stability": "the stability that uses had built up: only memory_decay has it",
    "retrieval": "the retrieval value, if it differs from the strength: only memory_decay has one",
    "strength": "the new model can't express its strength, which changes",
}
"""Explanation of each loss, by name."""

_CLOSE: Final = 1e-6


def conversion_losses(state: State, now: float, source: Dynamics, target: Dynamics) -> dict[str, npt.NDArray[np.bool_]]:
    """Return the losses of memories in a change of model; everything else is unchanged at `now`.

    Args:
        state: The memories, anchored under `source`.
        now: The moment of the change.
        source: The model before the change.
        target: The model after the change; there are no losses if both models have the same name.

    Returns:
        A mask of the affected memories for each name in `LOSSES`, apart from names that can't apply to these models.
    """
    if source.name == target.name:
        return {}
    score = source.score(state, now)
    strength = np.minimum(score, 1)
    lost = {
        "score_above_1": (score > 1 + _CLOSE) & (not isinstance(target, Mnemex)),
        "multiplier_0": (state.multiplier == 0) & (strength > _CLOSE) & isinstance(target, Mnemex),
    }
    if isinstance(source, MemoryDecay):
        settled = source.advance(state, now)
        lost["stability"] = settled.stability > _CLOSE
        lost["retrieval"] = np.abs(settled.retrieval - strength) > _CLOSE
    rebased_strength = target.strength(rebase(state, now, source, target), now)
    lost["strength"] = (np.abs(rebased_strength - strength) > _CLOSE) & ~lost["multiplier_0"]
    return lost
