"""The profile `spec`: decay at a rate that falls with importance (seed 004 §2; ops/decisions/0010)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import field, replace
from functools import cached_property
from typing import Annotated, Final, Literal

import numpy as np
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from app.domain.dynamics.closed_form import ClosedForm
from app.domain.dynamics.ops import EXPONENT_MIN, NUMPY, Floats, Ops, V
from app.domain.dynamics.parameter_types import STRICT, Factor, Share
from app.domain.dynamics.state import (
    DAY_SECONDS,
    STRENGTH_MIN,
    Event,
    Row,
    State,
    age_seconds,
    choose,
    due,
    take,
    used_at,
)
from app.domain.strength.importance import Importance, lasting_importance, normalised_weights, recency

LAWS: Final[dict[str, tuple[float, ...]]] = {
    "quadratic": (1.0, -2.0, 1.0),
    "linear": (1.0, -0.9),
    "product": (1.0, -2.9, 2.8, -0.9),
}
"""Rate by importance I, as coefficients of 1, I, I²…: (1 - I)², 1 - 0.9·I, and their product (seed 004 §2.1, §2.2)."""

_STEPS_MAX = 60
_STEP_MIN_DAYS = 1e-10

_AccessModifier = Annotated[float, Field(ge=0.001, le=100, allow_inf_nan=False)]


@dataclass(frozen=True, config=STRICT)
class KindModifiers:
    """Decay factor of each kind of memory (seed 004 §2.2); 0 means no decay. Names as in `ingest.memory.KINDS`."""

    episodic: Factor = 1.0
    semantic: Factor = 0.7
    procedural: Factor = 0.5
    emotional: Factor = 0.6
    system: Factor = 0.3

    def in_order(self) -> tuple[float, ...]:
        """Return the factors in the order of `ingest.memory.KINDS`."""
        return (self.episodic, self.semantic, self.procedural, self.emotional, self.system)


@dataclass(frozen=True, config=STRICT)
class SpecParameters:
    """Parameters of `spec`; the defaults are seed 004's."""

    importance: Importance = Importance()
    """Weights of importance; decay has no context, so the context's part isn't used (§1)."""
    base_per_day: Factor = 0.1
    """Decay rate at importance 0 (§2.1)."""
    law: Literal["quadratic", "linear", "product"] = "quadratic"
    """Factor on the rate by importance: (1 - I)² (§2.1), 1 - 0.9·I (§2.2), or their product."""
    forgetting: Literal["exponential", "subtractive"] = "exponential"
    """With R the rate integrated over time: S·e^(-R), Ebbinghaus's curve, or S - R."""
    never_accessed: _AccessModifier = 1.5
    """Factor on the rate until the first use (§2.2)."""
    accessed_within_day: _AccessModifier = 0.5
    """Factor during the first day after a use."""
    accessed_within_week: _AccessModifier = 0.7
    """Factor for the rest of the first seven days, at least `accessed_within_day` and at most 1; afterwards it is 1."""
    kinds: KindModifiers = KindModifiers()
    """Factor by kind."""
    reinforcement: Share = 0.15
    """Share of the missing strength that a use restores (§2.3)."""

    @model_validator(mode="after")
    def _slows_down_after_use(self) -> SpecParameters:
        if not self.accessed_within_day <= self.accessed_within_week <= 1:
            found = f"{self.accessed_within_day} and {self.accessed_within_week}"
            raise ValueError(f"must satisfy accessed_within_day <= accessed_within_week <= 1, not {found}")
        return self


@plain_dataclass(frozen=True)
class Spec(ClosedForm):
    """Strength S(τ) = exp(level - rate · W(τ)), τ in days since creation or the last use.

    W is the integral from 0 of law(I) × access modifier. I = A + B·e^(-λτ), so law(I) is a polynomial in x = e^(-λτ),
    W is a polynomial in x and τ, and all coefficients that don't depend on the row are constants.
    """

    parameters: SpecParameters = field(default_factory=SpecParameters)
    name = "spec"

    def reinforce(self, state: State, event: Event) -> State:
        """Set strength to S + 0.15·(1 - S) at the moment of use, which becomes the last use (seed 004 §2.3)."""
        if event.source == "associate":
            return state
        if event.source == "test":
            return self.at_strength(state, event.now, self._raised(self.strength(state, event.now)))
        at, late = used_at(state, event)
        counted = replace(state, access_count=state.access_count + 1)
        used = replace(counted, accessed_at=at, anchored_at=at)
        return choose(
            late,
            self.at_strength(counted, event.now, self.strength(state, event.now)),
            self.at_strength(used, at, self._raised(self.strength(state, at))),
        )

    def due_at(self, state: State, thresholds: Floats | float) -> Floats:
        """Return when strength falls below the thresholds; `inf` if the rate is 0 or the threshold can't be reached."""
        thresholds = np.broadcast_to(np.asarray(thresholds, np.float64), state.level.shape)
        below = self.strength(state, state.anchored_at) < thresholds
        moments = np.where(below, state.anchored_at, np.inf)
        lowest = math.exp(EXPONENT_MIN) if self._exponential else 0.0
        speed = self._rate(NUMPY, state) * _polynomial(
            lasting_importance(NUMPY, self.parameters.importance, state), self._law
        )
        rows = np.flatnonzero(~below & (thresholds > lowest) & (speed > 0))
        if rows.size:
            falling = take(state, rows)
            days = self._days_to(falling, thresholds[rows])
            moments[rows] = due(falling, falling.accessed_at + days * DAY_SECONDS)
        return moments

    @cached_property
    def _exponential(self) -> bool:
        return self.parameters.forgetting == "exponential"

    @cached_property
    def _law(self) -> tuple[float, ...]:
        return LAWS[self.parameters.law]

    @cached_property
    def _area_terms(self) -> list[list[float]]:
        """Coefficients of A^i·x^k (row i, column k) in the integral of law(A + B·x), with x = e^(-λτ).

        The coefficients of A^i·τ in that integral are those of the law.
        """
        law, share = self._law, normalised_weights(self.parameters.importance, context=False).recency
        daily = self.parameters.importance.recency_lambda_per_day
        table = []
        for i in range(len(law)):
            powers = [
                -law[i + k] * math.comb(i + k, k) * share**k / (k * daily) for k in range(1, len(law) - i) if share > 0
            ]
            table.append([-sum(powers), *powers])
        return table

    @cached_property
    def _steps(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Coefficients (of 1, A, A²…) of the constants that make W continuous at one day and at one week."""
        p = self.parameters
        day, week = (self._area_at(age_days) for age_days in (1.0, 7.0))
        first = tuple((p.accessed_within_day - p.accessed_within_week) * area for area in day)
        return first, tuple(a + (p.accessed_within_week - 1) * area for a, area in zip(first, week, strict=True))

    def _area_at(self, age_days: float) -> list[float]:
        x = math.exp(-self.parameters.importance.recency_lambda_per_day * age_days)
        return [
            linear * age_days + sum(term * x**k for k, term in enumerate(terms))
            for linear, terms in zip(self._law, self._area_terms, strict=True)
        ]

    def _score(self, ops: Ops[V], row: Row[V], now: V) -> V:
        exponent = row.level - self._worn(ops, row, now)
        if self._exponential:
            return ops.exp(ops.minimum(exponent, 0.0))
        return ops.minimum(ops.maximum(exponent + 1.0, 0.0), 1.0)

    def _level(self, ops: Ops[V], row: Row[V], at: V, score: V) -> V:
        worn = self._worn(ops, row, at)
        if self._exponential:
            return ops.log(ops.minimum(ops.maximum(score, STRENGTH_MIN), 1.0)) + worn
        return ops.minimum(ops.maximum(score, 0.0), 1.0) - 1.0 + worn

    def _worn(self, ops: Ops[V], row: Row[V], now: V) -> V:
        """Return the rate integrated from the last use to `now`."""
        age_days = ops.once("age_days", age_seconds(ops, row, now) / DAY_SECONDS)
        constant = ops.once("lasting", lasting_importance(ops, self.parameters.importance, row))
        return self._rate(ops, row) * self._weighed_area(ops, row, constant, age_days)

    def _rate(self, ops: Ops[V], row: Row[V]) -> V:
        """Return the rate per day at importance 0 and access modifier 1."""
        base = self.parameters.base_per_day
        return ops.pick(row.kind, [base * modifier for modifier in self.parameters.kinds.in_order()])

    def _weighed_area(self, ops: Ops[V], row: Row[V], constant: V, age_days: V) -> V:
        """Return W: the law times the access modifier, integrated from the last use."""
        p = self.parameters
        x = ops.once("recency", recency(ops, p.importance, age_days))
        area = self._area(constant, age_days, x)  # not named with `once`: each row needs it in only one branch
        after_day, after_week = (_polynomial(constant, step) for step in self._steps)
        later = ops.where(age_days < 7.0, area * p.accessed_within_week + after_day, area + after_week)
        used = ops.where(age_days < 1.0, area * p.accessed_within_day, later)
        return ops.where(row.access_count < 0.5, area * p.never_accessed, used)

    def _area(self, constant: V, age_days: V, x: V) -> V:
        """Return the law integrated from the last use."""
        area = age_days * self._law[-1] + _polynomial(x, self._area_terms[-1])
        for linear, terms in zip(self._law[-2::-1], self._area_terms[-2::-1], strict=True):
            area = area * constant + (age_days * linear + _polynomial(x, terms))
        return area

    def _days_to(self, state: State, thresholds: Floats) -> Floats:
        """Return the age at which strength reaches the threshold, by Newton's method from the right.

        W is convex, since the rate only grows between uses. Its asymptote is therefore below W and crosses the target
        no earlier than W, and each tangent step from there approaches the crossing without passing it.
        """
        p = self.parameters
        constant = lasting_importance(NUMPY, p.importance, state)
        target = state.level - (np.log(thresholds) if self._exponential else thresholds - 1)
        target = target / self._rate(NUMPY, state)
        unused = state.access_count < 0.5
        start = self._area(constant, np.zeros_like(constant), np.zeros_like(constant))
        start = np.where(unused, start * p.never_accessed, start + _polynomial(constant, self._steps[1]))
        slope = _polynomial(constant, self._law) * np.where(unused, p.never_accessed, 1.0)
        first = age_seconds(NUMPY, state, state.anchored_at) / DAY_SECONDS
        days = np.maximum((target - start) / slope, first)
        share = normalised_weights(p.importance, context=False).recency
        for _ in range(_STEPS_MAX):
            over = self._weighed_area(NUMPY, state, constant, days) - target
            modifier = np.where(days < 1, p.accessed_within_day, np.where(days < 7, p.accessed_within_week, 1.0))
            modifier = np.where(unused, p.never_accessed, modifier)
            speed = modifier * _polynomial(constant + share * recency(NUMPY, p.importance, days), self._law)
            step = np.where((over > 0) & (speed > 0), over / np.where(speed > 0, speed, 1.0), 0.0)
            days = np.maximum(days - step, first)
            if np.all(step < _STEP_MIN_DAYS):
                break
        return days

    def _raised(self, strength: Floats) -> Floats:
        return np.minimum(strength + self.parameters.reinforcement * (1 - strength), 1)


def _polynomial(x: V, coefficients: Sequence[float]) -> V | float:
    """Return c0 + c1·x + c2·x²…, by Horner's rule."""
    *lower, highest = coefficients
    value: V | float = highest
    for coefficient in reversed(lower):
        value = x * value + coefficient
    return value
