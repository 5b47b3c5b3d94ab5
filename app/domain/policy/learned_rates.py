"""Learn from the times of uses how fast a tenant's memories should fade: the profile's own rate, by kind.

`rate_fit` estimates the speed at which uses really became rare. This module names the parameters that set the speed,
draws the estimate towards the value that was set by hand, and limits how far one policy version may move it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np

from app.domain.dynamics import state
from app.domain.dynamics.memory_decay import FACT_KINDS, MemoryDecayParameters
from app.domain.dynamics.mnemex import MnemexParameters
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.rate_fit import SPEED_MAX, SpeedFit
from app.domain.dynamics.state import DAY_SECONDS
from app.domain.ingest.memory import KINDS
from app.domain.policy.policy import Policy
from app.domain.policy.stored_policy import STORED

PRIOR_USES: Final = 150
"""Number of memories and of uses at which the data weigh as much as the value set by hand."""
STEP_MAX: Final = 1.5
"""Largest factor by which one policy version changes a rate."""
CHANGE_MIN: Final = 1.1
"""Smallest factor that is proposed: every change makes the service anchor all memories again."""

_TYPICAL_SALIENCE = 0.5
_CHANCE_95 = 1.96


@dataclass(frozen=True)
class Rate:
    """Parameters of a profile that together set the speed of decay for some kinds of memory.

    Attributes:
        name: Path of the first parameter below `forgetting.parameters`.
        kinds: The kinds, as indices in `KINDS`.
        values: Current value of each parameter, by path.
        is_inverse: True if a higher value means slower decay, as for a half-life.
    """

    name: str
    kinds: tuple[int, ...]
    values: Mapping[str, float]
    is_inverse: bool = False

    def at_speed(self, speed: float) -> dict[str, float]:
        """Return the parameters, by path, at which memories fade this many times as fast as now."""
        factor = 1 / speed if self.is_inverse else speed
        return {path: value * factor for path, value in self.values.items()}


@dataclass(frozen=True)
class LearnedRate:
    """A rate with what was learned about it. Speeds are factors on the current rate of decay.

    Attributes:
        rate: The parameters, with their current values.
        memories: Number of memories observed.
        uses: Number of their uses that count, at most one a day for each memory.
        speed: Speed with the highest likelihood; None if the uses say nothing about it.
        low: Lower end of its 95 % interval; None without one.
        high: Upper end; None without one.
        weight: Weight of the data, 0 to 1, against the value set by hand.
        learned: Speed after that weighting.
        proposed: Speed of the next policy version: `learned`, within a factor of `STEP_MAX`; exactly 1 if the change is
            too small, the current rate is within the interval, or there is no interval.
        half_lives: Days until an unused memory of the first kind has half its strength: now, and at the speed learned.
    """

    rate: Rate
    memories: int
    uses: int
    speed: float | None
    low: float | None
    high: float | None
    weight: float
    learned: float
    proposed: float
    half_lives: tuple[float, float]


def list_rates(policy: Policy) -> list[Rate]:
    """Return the rates that can be learned under a policy; none for a profile that isn't built in."""
    parameters = policy.known_parameters
    every = tuple(range(len(KINDS)))
    match policy.forgetting.profile:
        case "spec":
            factors = enumerate(KINDS)
            kinds = getattr(parameters, "kinds", None)
            rates = [
                Rate(f"kinds.{kind}", (index,), {f"kinds.{kind}": getattr(kinds, kind)}) for index, kind in factors
            ]
        case "mnemex" if isinstance(parameters, MnemexParameters) and parameters.curve == "two_component":
            names = ("fast_lambda_per_second", "slow_lambda_per_second")
            rates = [Rate(names[0], every, {name: getattr(parameters, name) for name in names})]
        case "mnemex" if isinstance(parameters, MnemexParameters):
            rates = [Rate("half_life_days", every, {"half_life_days": parameters.half_life_days}, is_inverse=True)]
        case "cmm":
            name = "lambda_per_second"
            rates = [Rate(name, every, {name: getattr(parameters, name)})]
        case "memory_decay" if isinstance(parameters, MemoryDecayParameters):
            prefix = "beta" if parameters.curve == "power_law" else "lambda"
            facts = tuple(index for index in every if KINDS[index] in FACT_KINDS)
            episodes = tuple(index for index in every if index not in facts)
            pairs = ((f"{prefix}_fact", facts), (f"{prefix}_episode", episodes))
            rates = [Rate(name, kinds, {name: getattr(parameters, name)}) for name, kinds in pairs]
        case _:
            rates = []
    return [rate for rate in rates if all(value > 0 for value in rate.values.values())]


def with_parameters(policy: Policy, values: Mapping[str, float]) -> Policy:
    """Return the policy with these parameters of its profile, by path; limits aren't checked."""
    body = policy.model_dump(mode="json")
    body["forgetting"]["parameters"] = merge_paths(body["forgetting"]["parameters"], values)
    return Policy.model_validate(body, context=STORED)


def merge_paths(parameters: Mapping[str, Any], values: Mapping[str, float]) -> dict[str, Any]:
    """Return nested parameters with values set at dotted paths."""
    merged = dict(parameters)
    for path, value in values.items():
        name, _, rest = path.partition(".")
        merged[name] = merge_paths(merged.get(name, {}), {rest: value}) if rest else value
    return merged


def model_at(policy: Policy, rate: Rate, speed: float) -> Dynamics:
    """Return the policy's forgetting model at a speed."""
    return with_parameters(policy, rate.at_speed(speed)).model


def weigh(policy: Policy, rate: Rate, fit: SpeedFit, by_hand: Rate) -> LearnedRate:
    """Draw an estimate towards the value set by hand, and limit it to one step.

    The weight of the data is n³ / (n³ + 150³), with n the smaller of the numbers of memories and uses: 50 memories
    weigh 4 %, 2,000 weigh 99.96 %. The power is high because few memories may stem from a single conversation.

    Args:
        by_hand: The same rate in the latest policy that wasn't learned.
    """
    count = min(fit.memories, fit.uses)
    weight = 0.0 if fit.log_speed is None else count**3 / (count**3 + PRIOR_USES**3)
    prior = _log_ratio(rate, by_hand)
    learned = math.exp(prior + weight * ((fit.log_speed or 0.0) - prior))
    learned = min(max(learned, 1 / SPEED_MAX), SPEED_MAX)
    low, high = _interval(fit)
    is_within = low is not None and high is not None and low <= 1 <= high
    step = min(max(learned, 1 / STEP_MAX), STEP_MAX)
    proposed = 1.0 if is_within or low is None or abs(math.log(step)) < math.log(CHANGE_MIN) else step
    return LearnedRate(
        rate=rate,
        memories=fit.memories,
        uses=fit.uses,
        speed=None if fit.log_speed is None else math.exp(fit.log_speed),
        low=low,
        high=high,
        weight=weight,
        learned=learned,
        proposed=proposed,
        half_lives=(half_life_days(policy.model, rate), half_life_days(model_at(policy, rate, learned), rate)),
    )


def half_life_days(model: Dynamics, rate: Rate) -> float:
    """Return the days after which an unused memory of middle salience has half its strength; `inf` if never."""
    fresh = state.new(np.zeros(1), kind=rate.kinds[0], salience=_TYPICAL_SALIENCE)
    return float(model.due_at(fresh, 0.5)[0]) / DAY_SECONDS


def proposed_parameters(learned: Sequence[LearnedRate]) -> dict[str, float]:
    """Return the parameters that the next policy version would set, by path, with four significant digits."""
    changed = [one for one in learned if one.proposed != 1]
    return {path: float(f"{value:.4g}") for one in changed for path, value in one.rate.at_speed(one.proposed).items()}


def _log_ratio(rate: Rate, by_hand: Rate) -> float:
    """Return ln of the speed set by hand, as a factor on the current speed."""
    ratio = math.log(by_hand.values[rate.name] / rate.values[rate.name])
    return -ratio if rate.is_inverse else ratio


def _interval(fit: SpeedFit) -> tuple[float | None, float | None]:
    if fit.log_speed is None or fit.error is None:
        return None, None
    return tuple(math.exp(fit.log_speed + sign * _CHANCE_95 * fit.error) for sign in (-1, 1))  # type: ignore[return-value]


class StoredRates(msgspec.Struct, frozen=True):
    """A tenant's stored result.

    Attributes:
        at: Time of the last nightly run that learned, in seconds since 1970; None before the first.
        by_hand: Value of each learned parameter before it was first learned, by path.
        applied: Value that was learned last, by path; if the current value differs, it was set by hand afterwards.
        proposed: Values that the last nightly run proposed and that haven't been applied, by path.
    """

    at: float | None = None
    by_hand: dict[str, float] = {}
    applied: dict[str, float] = {}
    proposed: dict[str, float] = {}

    def restore_rate(self, rate: Rate) -> Rate:
        """Return the rate with each learned value replaced by its value before learning, set by hand or by default."""
        is_learned = {path: self.applied.get(path) == value for path, value in rate.values.items()}
        values = {path: self.by_hand[path] if is_learned[path] else value for path, value in rate.values.items()}
        return replace(rate, values=values)

    def add_applied(self, rates: Sequence[Rate], values: Mapping[str, float]) -> StoredRates:
        """Return the result after a policy version has set these learned values."""
        restored = {path: value for rate in rates for path, value in self.restore_rate(rate).values.items()}
        by_hand = {path: restored[path] for path in values}
        return StoredRates(self.at, self.by_hand | by_hand, {**self.applied, **values})


NONE: Final = StoredRates()
_DECODER: Final = msgspec.json.Decoder(StoredRates)


def decode_rates(body: str | bytes) -> StoredRates:
    """Return a stored result from its JSON."""
    return _DECODER.decode(body)
