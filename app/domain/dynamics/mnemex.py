"""The profile `mnemex`: score from uses, time since the last use, and a multiplier (seeds 000 and 001).

Errata of seed 000, whose printed numbers contradict its own formula; this module follows the formula:

=================================== ======= =======
e^(-λΔt), half-life 3 days          printed formula
=================================== ======= =======
12 hours                            .917    .891
1 day                               .841    .794
7 days                              .210    .198
14 days                             .044    .039
50 uses, 50^0.6                     11.45   10.46
=================================== ======= =======
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass as plain_dataclass
from dataclasses import field, replace
from functools import cached_property
from typing import Annotated, Final, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from app.domain.dynamics.closed_form import ClosedForm
from app.domain.dynamics.ops import EXPONENT_MIN, NUMPY, Floats, Ops, Sql, Term, V
from app.domain.dynamics.parameter_types import STRICT, Days, Factor, Share
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
)

MULTIPLIER_MAX: Final = 2.0
CONTENT_MULTIPLIERS: Final = {"security": 2.0, "decision": 1.5, "preference": 1.3}
"""Multiplier by the topic of a new memory (seed 000, context-aware strength); a multiplier set by the caller wins."""
CATEGORY_PACES: Final = {"credentials": 0.5, "ephemeral": 2.0}
"""Factor on λ by category (seed 000, adaptive decay)."""

_SCORE_EXPONENT_MAX = 300.0  # far from overflow, and above any score divided by the smallest multiplier
_STEPS_MAX = 60
_STEP_MIN_SECONDS = 1e-6

_PerSecond = Annotated[float, Field(ge=1e-12, le=1, allow_inf_nan=False)]


@dataclass(frozen=True, config=STRICT)
class MnemexParameters:
    """Parameters of `mnemex`; the defaults are seed 000's."""

    curve: Literal["power_law", "exponential", "two_component"] = "power_law"
    """f(Δt): (1 + Δt/t0)^-α, e^(-λΔt), or a sum of a fast and a slow e^(-λΔt)."""
    half_life_days: Annotated[float, Field(ge=0.001, le=100_000, allow_inf_nan=False)] = 3.0
    """H, at which f is 1/2; t0 = H / (2^(1/α) - 1) and λ = ln 2 / H. Not used by the two-component curve."""
    alpha: Annotated[float, Field(ge=0.05, le=20, allow_inf_nan=False)] = 1.1
    """α, shape of the power law."""
    fast_share: Annotated[float, Field(ge=0.001, le=0.999, allow_inf_nan=False)] = 0.7
    """w, share of the fast component."""
    fast_lambda_per_second: _PerSecond = 1.603e-5
    """λf, half-life 12 hours."""
    slow_lambda_per_second: _PerSecond = 1.147e-6
    """λs, half-life 7 days."""
    beta: Share = 0.6
    """β, weight of the use count."""
    forget_below: Factor = 0.05
    """Score below which a memory may be deleted, unless `tiers.deleted_below` differs from its default; at most
    `tiers.cold_below`."""
    promote_from: Factor = 0.65
    """Score from which a memory is promoted."""
    promote_uses: Annotated[int, Field(ge=1, le=1_000_000)] = 5
    """Number n from which a memory is promoted within the window; n counts its uses and its creation."""
    promote_window_days: Days = 14.0
    """Age up to which `promote_uses` promotes a memory, in days since creation."""
    boost: Factor = 0.1
    """Increase of the multiplier, up to 2, by a boost, a use in another domain or a passed self-test."""
    other_domain_below: Share = 0.3
    """Overlap of tags (Jaccard) below which a use counts as a use in another domain (seed 001)."""

    @model_validator(mode="after")
    def _fast_is_faster(self) -> MnemexParameters:
        if self.fast_lambda_per_second < self.slow_lambda_per_second:
            pair = f"{self.fast_lambda_per_second} and {self.slow_lambda_per_second}"
            raise ValueError(f"fast_lambda_per_second must be at least slow_lambda_per_second, not {pair}")
        return self


PRESETS: Final = {
    "personal_assistant": MnemexParameters(),
    "development": MnemexParameters(half_life_days=1, beta=0.8, forget_below=0.10, promote_from=0.70),
    "research": MnemexParameters(half_life_days=14, beta=0.4, forget_below=0.03, promote_from=0.50),
    "meeting_notes": MnemexParameters(half_life_days=0.5, beta=0.9, forget_below=0.15, promote_from=0.75),
}
"""Parameters by use case (seed 000, tuning); the half-life applies to any of the curves."""


@plain_dataclass(frozen=True)
class Mnemex(ClosedForm):
    """score = n^β · f(Δt) · m · e^level, with n = uses + 1 and Δt the seconds since the last use, times the pace."""

    parameters: MnemexParameters = field(default_factory=MnemexParameters)
    name = "mnemex"

    def strength(self, state: State, now: Floats | float) -> Floats:
        """Return the score, limited to 1."""
        return np.minimum(self.score(state, now), 1)

    def strength_sql(self, row: Row[Term], now: Term) -> str:
        """Return the strength as an SQL expression, equal to `strength` within 1e-9."""
        ops = Sql()
        return ops.text(ops.minimum(self._score(ops, row, now), 1.0))

    def reinforce(self, state: State, event: Event) -> State:
        """Apply a use: Δt ← 0, n ← n + 1, and with a boost m ← m + 0.1 (seed 001, reinforcement).

        The level becomes 0, unless that would lower a score that `at_strength` had raised: then the score is preserved.
        """
        if event.source == "associate":
            return state
        boosted = np.minimum(state.multiplier + self.parameters.boost, MULTIPLIER_MAX)
        if event.source == "test":
            return replace(self.advance(state, event.now), multiplier=boosted)
        at, late = used_at(state, event)
        counted = replace(self.advance(state, event.now), access_count=state.access_count + 1)
        multiplier = np.where(event.boost, boosted, state.multiplier)
        used = replace(counted, accessed_at=at, anchored_at=at, level=np.zeros_like(at), multiplier=multiplier)
        preserving_level = self.at_strength(used, at, self.score(state, at)).level
        return choose(late, counted, replace(used, level=np.maximum(preserving_level, 0)))

    def due_at(self, state: State, thresholds: Floats | float) -> Floats:
        """Return when strength falls below the thresholds."""
        thresholds = np.broadcast_to(np.asarray(thresholds, np.float64), state.level.shape)
        below = self.strength(state, state.anchored_at) < thresholds
        aided = state.level + self.parameters.beta * np.log(state.access_count + 1)
        lowest = math.exp(EXPONENT_MIN) * state.multiplier
        falling = ~below & (thresholds > lowest)
        # ln f at the crossing; f is 1 at the last use.
        fallen = np.log(np.where(falling, thresholds / np.where(falling, state.multiplier, 1), 1))
        seconds = self._seconds_to(np.minimum(np.where(falling, fallen - aided, 0), 0)) / state.pace
        crossing = np.where(falling, due(state, state.accessed_at + seconds), np.inf)
        return np.where(below, state.anchored_at, crossing)

    def promoted(self, state: State, now: float) -> npt.NDArray[np.bool_]:
        """Return which memories qualify for promotion: by score, or by uses soon after creation (seed 000)."""
        p = self.parameters
        young = now - state.created_at <= p.promote_window_days * DAY_SECONDS
        return (self.score(state, now) >= p.promote_from) | ((state.access_count + 1 >= p.promote_uses) & young)

    @cached_property
    def _lambda_per_second(self) -> float:
        return math.log(2) / (self.parameters.half_life_days * DAY_SECONDS)

    @cached_property
    def _t0_seconds(self) -> float:
        return self.parameters.half_life_days * DAY_SECONDS / math.expm1(math.log(2) / self.parameters.alpha)

    def _score(self, ops: Ops[V], row: Row[V], now: V) -> V:
        return row.multiplier * ops.exp(ops.minimum(row.level + self._unaided(ops, row, now), _SCORE_EXPONENT_MAX))

    def _level(self, ops: Ops[V], row: Row[V], at: V, score: V) -> V:
        """Return the level at which the row has this score at a moment; 0 for multipliers of 0."""
        none = row.multiplier * 0.0
        multiplied = ops.where(row.multiplier > 0.0, row.multiplier, none + 1.0)
        level = ops.log(ops.maximum(score, STRENGTH_MIN) / multiplied) - self._unaided(ops, row, at)
        return ops.where(row.multiplier > 0.0, level, none)

    def _unaided(self, ops: Ops[V], row: Row[V], now: V) -> V:
        """Return the exponent at level 0."""
        seconds = age_seconds(ops, row, now) * row.pace
        return ops.log(row.access_count + 1.0) * self.parameters.beta + self._log_curve(ops, seconds)

    def _log_curve(self, ops: Ops[V], seconds: V) -> V:
        """Return ln f(Δt), 0 or less."""
        p = self.parameters
        match p.curve:
            case "power_law":
                return ops.log(seconds * (1 / self._t0_seconds) + 1.0) * -p.alpha
            case "exponential":
                return seconds * -self._lambda_per_second
            case _:
                # Factor out the slow component: the rest of the logarithm's argument is between its share and 1.
                gap = p.fast_lambda_per_second - p.slow_lambda_per_second
                mixed = ops.exp(seconds * -gap) * p.fast_share + (1 - p.fast_share)
                return ops.log(mixed) + seconds * -p.slow_lambda_per_second

    def _seconds_to(self, fallen: Floats) -> Floats:
        """Return the Δt at which ln f has this value, 0 or less."""
        p = self.parameters
        match p.curve:
            case "power_law":
                return self._t0_seconds * np.expm1(np.minimum(fallen / -p.alpha, 600))
            case "exponential":
                return fallen / -self._lambda_per_second
            case _:
                return self._two_component_seconds_to(fallen)

    def _two_component_seconds_to(self, fallen: Floats) -> Floats:
        """Solve by Newton's method from the left: ln f is convex, so a tangent never overshoots the crossing."""
        p = self.parameters
        gap = p.fast_lambda_per_second - p.slow_lambda_per_second
        seconds = np.zeros_like(fallen)
        for _ in range(_STEPS_MAX):
            fast = p.fast_share * np.exp(np.maximum(-gap * seconds, EXPONENT_MIN))
            slow = 1 - p.fast_share
            speed = (p.fast_lambda_per_second * fast + p.slow_lambda_per_second * slow) / (fast + slow)
            step = np.maximum((self._log_curve(NUMPY, seconds) - fallen) / speed, 0)
            seconds = seconds + step
            if np.all(step < _STEP_MIN_SECONDS):
                break
        return seconds


def is_other_domain(parameters: MnemexParameters, tags: Collection[str], context_tags: Collection[str]) -> bool:
    """Return whether a use is in another domain: memory and context both have tags that hardly overlap (seed 001)."""
    own, context = set(tags), set(context_tags)
    return bool(own and context) and len(own & context) / len(own | context) < parameters.other_domain_below


def pace(categories: Collection[str]) -> float:
    """Return the factor on the age of a memory with these categories: the product of their factors on λ."""
    return math.prod(CATEGORY_PACES.get(category, 1.0) for category in set(categories))
