"""The profile `cmm`: a grace period after each use, a lock for frequent use, then exponential decay (seed 002)."""

from __future__ import annotations

import math
from dataclasses import dataclass as plain_dataclass
from dataclasses import field, replace
from typing import Annotated, Final, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field
from pydantic.dataclasses import dataclass

from app.domain.dynamics.closed_form import ClosedForm
from app.domain.dynamics.ops import EXPONENT_MIN, Floats, Ops, V
from app.domain.dynamics.parameter_types import STRICT, Days, Factor, Share
from app.domain.dynamics.state import (
    DAY_SECONDS,
    STRENGTH_MIN,
    WEEK_SECONDS,
    Event,
    Row,
    State,
    age_seconds,
    choose,
    due,
    used_at,
)

CLASS_IMPORTANCES: Final = {"correction": 2.0, "instruction": 2.0, "novel": 1.5, "normal": 1.0, "routine": 0.5}
"""Importance by the content class of a new memory; half of this importance is its initial salience."""

_WEEKS_MIN = 1 / 7  # one use of an hour-old memory must not count as 168 uses a week


@dataclass(frozen=True, config=STRICT)
class CmmParameters:
    """Parameters of `cmm`; the defaults are seed 002's."""

    lambda_per_second: Annotated[float, Field(ge=1e-12, le=1, allow_inf_nan=False)] = 5e-7
    """λ without rehearsal; the half-life is 16 days."""
    frequency_weight: Factor = 1.0
    """Weight of rehearsal, which slows decay: λ / (1 + weight · accesses per week)."""
    grace_days: Days = 14.0
    """Grace period after the last use, without decay."""
    age_from: Literal["last_use", "end_of_grace"] = "end_of_grace"
    """Moment from which decay counts a memory's age: `end_of_grace`, as in the authors' package, begins at strength 1;
    with `last_use`, as seed 002 is worded, strength drops when the grace period ends, to the value that it would have
    without one."""
    lock_accesses_per_week: Annotated[float, Field(ge=0.001, le=1_000_000, allow_inf_nan=False)] = 0.5
    """Accesses per week from which the memory is locked and doesn't decay."""
    test_gain: Share = 0.15
    """Share of the missing strength that a passed self-test restores; the seed has no self-tests."""
    surface_above: Factor = 0.3
    """Score that a memory must exceed to appear in a search of mode `cmm`."""
    spread_factor: Share = 0.5
    """Share of a found memory's score passed to its neighbours, per hop."""
    spread_hops: Annotated[int, Field(ge=0, le=3)] = 1
    """Number of hops over which a search of mode `cmm` passes scores to neighbours."""
    priming_boost: Factor = 0.3
    """Increase of the score factor directly after activation."""
    priming_decay_per_turn: Factor = 0.5
    """Decay rate of that increase per turn of the conversation."""
    priming_turns: Annotated[int, Field(ge=0, le=10_000)] = 10
    """Turns after which priming ends."""


@plain_dataclass(frozen=True)
class Cmm(ClosedForm):
    """strength = decay · e^level.

    Decay is 1 in the grace period or while locked, otherwise e^(-λ·age / (1 + w·accesses per week)), where the age
    counts from the end of the grace period or from the last use.
    """

    parameters: CmmParameters = field(default_factory=CmmParameters)
    name = "cmm"

    def reinforce(self, state: State, event: Event) -> State:
        """Apply a use (age ← 0, n ← n + 1) or a passed self-test."""
        if event.source == "associate":
            return state
        if event.source == "test":
            strength = self.strength(state, event.now)
            return self.at_strength(state, event.now, strength + self.parameters.test_gain * (1 - strength))
        at, late = used_at(state, event)
        counted = replace(self.advance(state, event.now), access_count=state.access_count + 1)
        return choose(late, counted, replace(counted, accessed_at=at, anchored_at=at, level=np.zeros_like(at)))

    def due_at(self, state: State, thresholds: Floats | float) -> Floats:
        """Return when strength falls below the thresholds, often in a jump when the grace period or the lock ends.

        Afterwards -ln of the decay is λ·a·t / (t + c), where t is the time since creation, d the time from creation to
        the start of the age, a = t - d the age, and c = w·n weeks. This term equals
        `fallen` where λ·t² - (λ·d + fallen)·t - fallen·c = 0.
        """
        p = self.parameters
        thresholds = np.broadcast_to(np.asarray(thresholds, np.float64), state.level.shape)
        below = self.strength(state, state.anchored_at) < thresholds
        falling = ~below & (thresholds > math.exp(EXPONENT_MIN))
        fallen = np.maximum(np.where(falling, state.level - np.log(np.where(falling, thresholds, 1)), 0), 0)
        rehearsed = p.frequency_weight * state.access_count * WEEK_SECONDS
        between = state.accessed_at - state.created_at + self._uncounted_seconds
        half = p.lambda_per_second * between + fallen
        age = (half + np.sqrt(half * half + 4 * p.lambda_per_second * fallen * rehearsed)) / (2 * p.lambda_per_second)
        first = _WEEKS_MIN * WEEK_SECONDS
        early = between + fallen * (first + rehearsed) / (p.lambda_per_second * first)
        crossing = np.maximum(state.created_at + np.where(age < first, early, age), self._free_at(state))
        return np.where(below, state.anchored_at, np.where(falling, due(state, crossing), np.inf))

    @property
    def _uncounted_seconds(self) -> float:
        """Time after the last use that isn't part of the age: the grace period with `end_of_grace`, otherwise 0."""
        p = self.parameters
        return p.grace_days * DAY_SECONDS if p.age_from == "end_of_grace" else 0.0

    def _free_at(self, state: State) -> Floats:
        """Return when both the grace period and the lock have ended."""
        p = self.parameters
        locked_weeks = state.access_count / p.lock_accesses_per_week
        unlocked = state.created_at + np.where(locked_weeks < _WEEKS_MIN, 0, locked_weeks) * WEEK_SECONDS
        return np.maximum(state.accessed_at + p.grace_days * DAY_SECONDS, unlocked)

    def _score(self, ops: Ops[V], row: Row[V], now: V) -> V:
        return ops.exp(ops.minimum(row.level - self._worn(ops, row, now), 0.0))

    def _level(self, ops: Ops[V], row: Row[V], at: V, score: V) -> V:
        return ops.log(ops.minimum(ops.maximum(score, STRENGTH_MIN), 1.0)) + self._worn(ops, row, at)

    def _worn(self, ops: Ops[V], row: Row[V], now: V) -> V:
        """Return -ln of the decay."""
        p = self.parameters
        since_use = ops.once("since_use", age_seconds(ops, row, now))
        since_creation = ops.seconds(row.created_at, ops.maximum(row.anchored_at, now))
        weekly = row.access_count / ops.maximum(since_creation / WEEK_SECONDS, _WEEKS_MIN)
        weekly = ops.once("weekly", weekly)
        age = since_use - self._uncounted_seconds
        worn = age * p.lambda_per_second / (weekly * p.frequency_weight + 1.0)
        unlocked = ops.where(weekly < p.lock_accesses_per_week, worn, since_use * 0.0)
        return ops.where(since_use < p.grace_days * DAY_SECONDS, since_use * 0.0, unlocked)


def priming(parameters: CmmParameters, turns: npt.NDArray[np.floating]) -> Floats:
    """Return the score factor, 1 or more, of memories activated this many turns ago (seed 002, priming boost).

    NaN means never activated; a negative number means activated in a later turn. Neither is primed.
    """
    is_primed = (turns >= 0) & (turns <= parameters.priming_turns)
    exponent = -parameters.priming_decay_per_turn * np.where(is_primed, turns, 0)
    return 1 + np.where(is_primed, parameters.priming_boost * np.exp(np.maximum(exponent, EXPONENT_MIN)), 0)


def relevance(similarity: Floats, decay: Floats, importance: Floats, primed: Floats) -> Floats:
    """Return the search score: a product, so that a factor of 0 removes a memory (seed 002, why multiplicative)."""
    return similarity * decay * importance * primed
