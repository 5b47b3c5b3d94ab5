"""A forgetting model in its own package: strength halves with each half-life."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass as checked

from app.domain.dynamics.ops import NUMPY, Floats, Ops, Sql, Term, V
from app.domain.dynamics.state import (
    DAY_SECONDS,
    STRENGTH_MIN,
    Event,
    Row,
    State,
    age_seconds,
    choose,
    due,
    used_at,
    when,
)


@checked(frozen=True)
class HalfLifeParameters:
    """Parameters that a policy may set."""

    half_life_days: Annotated[float, Field(ge=0.01, le=100_000)] = 10.0
    test_gain: Annotated[float, Field(ge=0, le=1)] = 0.1


@dataclass(frozen=True)
class HalfLife:
    """strength = e^level · 2^(-days since the last use / half-life); a use restores it fully."""

    parameters: HalfLifeParameters = field(default_factory=HalfLifeParameters)
    name = "half_life"
    refresh_seconds = math.inf
    spreads = False

    def strength(self, state: State, now: Floats | float) -> Floats:
        return self._strength(NUMPY, state, when(state, now))

    def score(self, state: State, now: Floats | float) -> Floats:
        return self.strength(state, now)

    def strength_sql(self, row: Row[Term], now: Term) -> str:
        ops = Sql()
        return ops.text(self._strength(ops, row, now))

    def advance(self, state: State, now: float) -> State:
        return replace(state, anchored_at=when(state, now))

    def at_strength(self, state: State, now: Floats | float, strength: Floats | float) -> State:
        at = when(state, now)
        faded = age_seconds(NUMPY, state, at) * self._per_second
        return replace(state, anchored_at=at, level=np.log(np.clip(strength, STRENGTH_MIN, 1)) + faded)

    def reinforce(self, state: State, event: Event) -> State:
        if event.source == "associate":
            return state
        if event.source == "test":
            strength = self.strength(state, event.now)
            return self.at_strength(state, event.now, strength + self.parameters.test_gain * (1 - strength))
        at, late = used_at(state, event)
        counted = replace(self.advance(state, event.now), access_count=state.access_count + 1)
        used = replace(counted, accessed_at=at, anchored_at=at, level=np.zeros_like(at))
        return choose(late, counted, used)

    def due_at(self, state: State, thresholds: Floats | float) -> Floats:
        wanted = np.log(np.maximum(thresholds, STRENGTH_MIN))
        return due(state, state.accessed_at + (state.level - wanted) / self._per_second)

    @property
    def _per_second(self) -> float:
        return math.log(2) / (self.parameters.half_life_days * DAY_SECONDS)

    def _strength(self, ops: Ops[V], row: Row[V], now: V) -> V:
        return ops.exp(ops.minimum(row.level - age_seconds(ops, row, now) * self._per_second, 0.0))


profile = (HalfLife, HalfLifeParameters)
