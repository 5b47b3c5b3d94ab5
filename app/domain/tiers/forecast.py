"""Forecast how many of a tenant's memories will be in each tier at future times.

Strength is a function of time, so no simulation is needed. Without uses, edits and new memories, the forecast equals
what sweeps at those times will find.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.memory_decay import MemoryDecay
from app.domain.dynamics.ops import Floats
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import State, take
from app.domain.policy.policy import Policy
from app.domain.strength import importance
from app.domain.tiers.decay_tier import CurrentStrength, decay_tier
from app.domain.tiers.tier_decision import DELETED, TierFacts, decide_tiers, may_move

DAYS_MAX: Final = 3_650
"""Maximum range of a forecast in days."""
TICKS_MAX: Final = 24 * DAYS_MAX
"""Maximum number of ticks in a forecast: enough for hourly ticks over the whole range."""

Counts: TypeAlias = npt.NDArray[np.int64]
"""Number of memories by time and tier, shape (times, tiers), tiers in the order of `DECAY_TIERS`."""
Places: TypeAlias = npt.NDArray[np.int64]
"""For each row, the index of the time from which a condition holds; the number of times if it never does."""
Check: TypeAlias = Callable[[], object]
_Test: TypeAlias = Callable[[State, Floats], npt.NDArray[np.bool_]]


def _never_stop() -> None:
    """Do nothing: the default check never stops the work."""


def horizon_seconds(dynamics: Dynamics) -> float:
    """Return how far ahead a model can be forecast; infinite unless it is tick-based."""
    return TICKS_MAX * dynamics.parameters.tick_seconds if isinstance(dynamics, MemoryDecay) else math.inf


def tiers_by_time(policy: Policy, state: State, standing: TierFacts, now: Floats | float) -> npt.NDArray[np.int8]:
    """Return the tiers of memories anchored under this policy, as indexes in `DECAY_TIERS`."""
    seen = CurrentStrength(policy.model.strength(state, now), importance.importance(policy.importance, state, now))
    return decide_tiers(policy.rules, standing, state, now, seen).tiers


def count_tiers(
    policy: Policy, state: State, standing: TierFacts, moments: Floats, check: Check = _never_stop
) -> Counts:
    """Count the memories in each tier at each time; equal to `tiers_by_time`, in a few passes over the rows.

    Between uses a memory only moves down and loses any protection permanently. It is therefore enough to find the times
    at which it falls below each threshold and at which its protection ends.

    Args:
        policy: Model, importance, tiers and protection.
        state: The memories, anchored under this policy.
        standing: Their tiers and protections, in the same order.
        moments: Ascending, in seconds since 1970; at least one.
        check: Called between the parts of long work; raises to cancel it.
    """
    tiers = policy.tiers
    thresholds = tuple(tiers.by_tier.values())
    find = _crossed if math.isinf(policy.model.refresh_seconds) else _ticked
    falls = find(policy.model, state, thresholds, moments, check)

    deleted = falls[-1]
    weak = np.flatnonzero(deleted < len(moments))
    accepted_at = standing.accepted_at[weak]

    def weightless(rows: State, now: Floats) -> CurrentStrength:
        return CurrentStrength(np.full(len(now), -1.0), importance.importance(policy.importance, rows, now))

    def deletable_if_weak(rows: State, now: Floats) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = decay_tier(tiers, rows, now, weightless(rows, now), accepted_at) == DELETED
        return found

    deleted[weak] = np.maximum(deleted[weak], _first(deletable_if_weak, take(state, weak), moments))
    free = _first(lambda rows, now: may_move(policy.rules, standing, rows, now, weightless(rows, now)), state, moments)
    ended = np.minimum(standing.expires_at, standing.erase_at)
    gone = np.where(standing.is_held, len(moments), np.searchsorted(moments, ended))
    for tier, places in enumerate(falls, start=1):
        np.maximum(places, free, out=places)
        places[standing.tiers >= tier] = 0
        np.minimum(places, gone, out=places)
    fallen = [np.cumsum(np.bincount(places, minlength=len(moments))[: len(moments)]) for places in falls]
    everybody, nobody = np.full(len(moments), len(state.level)), np.zeros(len(moments), np.int64)
    return -np.diff([everybody, *fallen, nobody], axis=0).T


def _crossed(
    dynamics: Dynamics, state: State, thresholds: tuple[float, ...], moments: Floats, check: Check
) -> list[Places]:
    """Return the index of the first time below each threshold, by bisection."""

    def below(threshold: float) -> _Test:
        return lambda rows, now: dynamics.strength(rows, now) < threshold

    found = []
    for threshold in thresholds:
        check()
        found.append(_first(below(threshold), state, moments))
    return found


def _ticked(
    dynamics: Dynamics, state: State, thresholds: tuple[float, ...], moments: Floats, check: Check
) -> list[Places]:
    """Return the index of the first time below each threshold for a tick-based model.

    It advances from time to time because a jump ahead costs as much as all the ticks in between.
    """
    found = [np.full(len(state.level), len(moments)) for _ in thresholds]
    rows, lowest = np.arange(len(state.level)), min(thresholds)
    for place, moment in enumerate(moments):
        check()
        state = dynamics.advance(state, moment)
        strength = dynamics.strength(state, moment)
        for places, threshold in zip(found, thresholds, strict=True):
            fallen = rows[strength < threshold]
            places[fallen] = np.minimum(places[fallen], place)
        falling = np.flatnonzero(strength >= lowest)
        if falling.size < rows.size:
            rows, state = rows[falling], take(state, falling)
    return found


def _first(holds: _Test, state: State, moments: Floats) -> Places:
    """Return, for each row, the index of the first time at which a monotonic condition holds, by bisection."""
    low, high = np.zeros(len(state.level), np.int64), np.full(len(state.level), len(moments))
    for _ in range(len(moments).bit_length()):
        middle = (low + high) // 2
        held = holds(state, moments[np.minimum(middle, len(moments) - 1)]) | (low == high)
        low, high = np.where(held, low, middle + 1), np.where(held, np.minimum(middle, high), high)
    return low
