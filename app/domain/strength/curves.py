"""A forgetting curve: one memory from its creation on, under any model, with uses on the way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import DAY_SECONDS, Event, State, new

_CREATED = 1_000_000_000.0  # any moment will do
_LOOKS_MAX: Final = 100


@dataclass(frozen=True)
class Memory:
    """What the memory is like when it is created.

    Attributes:
        salience: 0 to 1.
        kind: Place in `domain.memory.KINDS`.
        uses: How often it is used as it is created.
        touched_days: When it is used again, in days since then.
    """

    salience: float = 0.5
    kind: int = 0
    uses: int = 0
    touched_days: Sequence[float] = ()


@dataclass(frozen=True)
class Curve:
    """Strength by time; at a use there are two points, before and after.

    Attributes:
        days: Since creation, ascending, shape (n,).
        strengths: 0 to 1, shape (n,).
        below_days: By threshold, when strength falls below it after the last use; infinite where it never does.
    """

    days: Floats
    strengths: Floats
    below_days: dict[float, float]

    def at(self, day: float) -> float:
        """Strength on a day, after its uses."""
        return float(self.strengths[np.searchsorted(self.days, day, side="right") - 1])


def curve(dynamics: Dynamics, memory: Memory, days: Sequence[float], thresholds: Sequence[float]) -> Curve:
    """The curve on these days, which ascend from 0, and at each use up to the last of them."""
    state = new(np.array([_CREATED]), salience=memory.salience, kind=memory.kind)
    for _ in range(memory.uses):
        state = dynamics.reinforce(state, Event(at=_CREATED, now=_CREATED))
    shown, strengths = [], []
    touched = sorted(day for day in memory.touched_days if day <= days[-1])
    for begin, end in zip([-math.inf, *touched], [*touched, math.inf], strict=True):
        if begin >= 0:
            now = _moment(begin)
            state = dynamics.reinforce(state, Event(at=now, now=now))
        inside = [day for day in (begin, *(day for day in days if begin < day < end), end) if 0 <= day < math.inf]
        shown += inside
        strengths += [float(dynamics.strength(state, _moment(day))[0]) for day in inside]
    below = {threshold: _below_days(dynamics, state, threshold) for threshold in thresholds}
    return Curve(np.array(shown), np.array(strengths), below)


def _below_days(dynamics: Dynamics, state: State, threshold: float) -> float:
    """When strength falls below; since `due_at` may give an earlier bound, it is asked again, but not for ever."""
    for _ in range(_LOOKS_MAX):
        due = float(dynamics.due_at(state, threshold)[0])
        if math.isinf(due) or dynamics.strength(state, due)[0] < threshold:
            return (due - _CREATED) / DAY_SECONDS
        state = dynamics.advance(state, due)
    return math.inf


def _moment(day: float) -> float:
    return _CREATED + day * DAY_SECONDS
