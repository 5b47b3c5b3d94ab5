"""Compute the forgetting curve of one memory under any model, with uses at given times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import DAY_SECONDS, Event, State, new

_CREATED = 1_000_000_000.0  # an arbitrary time
_LOOKS_MAX: Final = 100


@dataclass(frozen=True)
class CurveMemory:
    """Initial state and uses of the memory.

    Attributes:
        salience: 0 to 1.
        kind: Index in `app.domain.ingest.memory.KINDS`.
        uses: Number of uses at creation.
        touched_days: Later uses, in days since creation.
    """

    salience: float = 0.5
    kind: int = 0
    uses: int = 0
    touched_days: Sequence[float] = ()


@dataclass(frozen=True)
class StrengthCurve:
    """Strength over time; each use has two points, before and after.

    Attributes:
        days: Days since creation, ascending, shape (n,).
        strengths: 0 to 1, shape (n,).
        below_days: By threshold, the day on which strength falls below it after the last use; infinite if never.
    """

    days: Floats
    strengths: Floats
    below_days: dict[float, float]

    def at(self, day: float) -> float:
        """Return the strength on a day, after its uses."""
        return float(self.strengths[np.searchsorted(self.days, day, side="right") - 1])


def compute_curve(
    dynamics: Dynamics, memory: CurveMemory, days: Sequence[float], thresholds: Sequence[float]
) -> StrengthCurve:
    """Compute the curve on each of these days (ascending from 0) and at each use until the last day."""
    state = new(np.array([_CREATED]), salience=memory.salience, kind=memory.kind)
    for _ in range(memory.uses):
        state = dynamics.reinforce(state, Event(at=_CREATED, now=_CREATED))
    shown, strengths = [], []
    use_days = sorted(day for day in memory.touched_days if day <= days[-1])
    for begin, end in zip([-math.inf, *use_days], [*use_days, math.inf], strict=True):
        if begin >= 0:
            now = _moment(begin)
            state = dynamics.reinforce(state, Event(at=now, now=now))
        inside = [day for day in (begin, *(day for day in days if begin < day < end), end) if 0 <= day < math.inf]
        shown += inside
        strengths += [float(dynamics.strength(state, _moment(day))[0]) for day in inside]
    below = {threshold: _below_days(dynamics, state, threshold) for threshold in thresholds}
    return StrengthCurve(np.array(shown), np.array(strengths), below)


def _below_days(dynamics: Dynamics, state: State, threshold: float) -> float:
    """Return the day on which strength falls below the threshold.

    `due_at` may return a time before the crossing; it is then called again from that time, at most `_LOOKS_MAX` times.
    """
    for _ in range(_LOOKS_MAX):
        due = float(dynamics.due_at(state, threshold)[0])
        if math.isinf(due) or dynamics.strength(state, due)[0] < threshold:
            return (due - _CREATED) / DAY_SECONDS
        state = dynamics.advance(state, due)
    return math.inf


def _moment(day: float) -> float:
    return _CREATED + day * DAY_SECONDS
