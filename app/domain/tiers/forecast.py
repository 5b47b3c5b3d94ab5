"""Forecast how many of a tenant's memories will be in each tier at future times.

Strength is a function of time, so no simulation is needed. Without uses, edits and new memories, the forecast equals
the result of sweeps at those times.
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
    """Return the maximum range of a forecast for a model, in seconds; infinite unless the model is tick-based."""
    return TICKS_MAX * dynamics.parameters.tick_seconds if isinstance(dynamics, MemoryDecay) else math.inf


def tiers_by_time(policy: Policy, state: State, standing: TierFacts, now: Floats | float) -> npt.NDArray[np.int8]:
    """Return the tiers of memories anchored under this policy, as indexes in `DECAY_TIERS`."""
    seen = CurrentStrength(policy.model.strength(state, now), importance.importance(policy.importance, state, now))
    return decide_tiers(policy.rules, standing, state, now, seen).tiers


def count_tiers(
    policy: Policy, state: State, standing: TierFacts, moments: Floats, check: Check = _never_stop
) -> Counts:
    """Count the memories in each tier at each time, as `tiers_by_time` would, but in a few passes over the rows.

    Without uses, a memory only moves down, and a protection that has ended never starts again. It is therefore enough
    to find the times at which the memory falls below each threshold and at which its protection ends.

    Args:
        policy: Model, importance, tiers and protection.
        state: The memories, anchored under this policy.
        standing: The memories' tiers and protections, in the same order.
        moments: Times in seconds since 1970, ascending, at least one.
        check: Called between the parts of long work; may raise an exception to cancel the work.
    """
    tiers = policy.thresholds
    thresholds = tuple(tiers.by_tier.values())
    find = _crossed if math.isinf(policy.model.refresh_seconds) else _ticked
    falls = find(policy.model, state, thresholds, moments, check)

    deleted = falls[-1]
    weak = np.flatnonzero(deleted < len(moments))
    accepted_at = standing.accepted_at[weak]
    is_deletable = policy.rules.judge_keep(standing.keep[weak], take(state, weak)).is_deletable

    def weightless(rows: State, now: Floats) -> CurrentStrength:
        return CurrentStrength(np.full(len(now), -1.0), importance.importance(policy.importance, rows, now))

    def deletable_if_weak(rows: State, now: Floats) -> npt.NDArray[np.bool_]:
        required = decay_tier(tiers, rows, now, weightless(rows, now), accepted_at, is_deletable)
        deletable: npt.NDArray[np.bool_] = required == DELETED
        return deletable

    deleted[weak] = np.maximum(deleted[weak], _first(deletable_if_weak, take(state, weak), moments))
    movable = _first(
        lambda rows, now: may_move(policy.rules, standing, rows, now, weightless(rows, now)), state, moments
    )
    removed_at = np.minimum(standing.expires_at, standing.erase_at)
    removed = np.where(standing.is_held, len(moments), np.searchsorted(moments, removed_at))
    for tier, places in enumerate(falls, start=1):
        np.maximum(places, movable, out=places)
        places[standing.tiers >= tier] = 0
        np.minimum(places, removed, out=places)
    fallen = [np.cumsum(np.bincount(places, minlength=len(moments))[: len(moments)]) for places in falls]
    all_rows, no_rows = np.full(len(moments), len(state.level)), np.zeros(len(moments), np.int64)
    return -np.diff([all_rows, *fallen, no_rows], axis=0).T


def _crossed(
    dynamics: Dynamics, state: State, thresholds: tuple[float, ...], moments: Floats, check: Check
) -> list[Places]:
    """Return, by threshold, the index of the first time at which each memory is below it, by bisection."""

    def below(threshold: float) -> _Test:
        return lambda rows, now: dynamics.strength(rows, now) < threshold

    falls = []
    for threshold in thresholds:
        check()
        falls.append(_first(below(threshold), state, moments))
    return falls


def _ticked(
    dynamics: Dynamics, state: State, thresholds: tuple[float, ...], moments: Floats, check: Check
) -> list[Places]:
    """Return, by threshold, the index of the first time at which each memory is below it, for a tick-based model.

    The state advances from each time to the next. Bisection would be slower, because a jump to a time computes all the
    ticks before it.
    """
    falls = [np.full(len(state.level), len(moments)) for _ in thresholds]
    rows, lowest = np.arange(len(state.level)), min(thresholds)
    for place, moment in enumerate(moments):
        check()
        state = dynamics.advance(state, moment)
        strength = dynamics.strength(state, moment)
        for places, threshold in zip(falls, thresholds, strict=True):
            fallen = rows[strength < threshold]
            places[fallen] = np.minimum(places[fallen], place)
        falling = np.flatnonzero(strength >= lowest)
        if falling.size < rows.size:
            rows, state = rows[falling], take(state, falling)
    return falls


def _first(holds: _Test, state: State, moments: Floats) -> Places:
    """Return, for each row, the index of the first time at which a monotonic condition holds, by bisection."""
    low, high = np.zeros(len(state.level), np.int64), np.full(len(state.level), len(moments))
    for _ in range(len(moments).bit_length()):
        middle = (low + high) // 2
        is_met = holds(state, moments[np.minimum(middle, len(moments) - 1)]) | (low == high)
        low, high = np.where(is_met, low, middle + 1), np.where(is_met, np.minimum(middle, high), high)
    return low
