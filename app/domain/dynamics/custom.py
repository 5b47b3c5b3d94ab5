"""Use an operator's decay function in place of `memory_decay`'s curves (seed 003, custom decay functions)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import product
from typing import Annotated, Any, Final

import numpy as np
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as checked_dataclass

from app.domain.dynamics.memory_decay import IS_FACT, MemoryDecay, MemoryDecayParameters
from app.domain.dynamics.ops import Floats
from app.domain.dynamics.parameter_types import STRICT
from app.domain.dynamics.state import DAY_SECONDS, State

ComputeDecay = Callable[[float, float, float, str, dict[str, Any]], float]
"""`compute_decay(activation, impact, stability, mtype, params)` returns the activation after a tick.

Activation, impact and stability are 0 to 1; `mtype` is `fact` or `episode`; `params` has the profile's parameters
(`lambda_fact`, …) and the policy's `settings`. Parameters with another name in the seed are passed under both names
(`alpha`, …). The function must return a number between 0 and the activation."""

REFRESH_TICKS_MAX: Final = 1_000
_SEED_NAMES: Final = {
    "impact_weight": "alpha",
    "gain_direct": "reinforcement_gain_direct",
    "gain_associate": "reinforcement_gain_assoc",
}

_AMOUNTS: Final = (0.0, 1e-3, 0.05, 0.3, 0.7, 1.0)
_SLACK: Final = 1e-9

_Setting = Annotated[float, Field(allow_inf_nan=False)]


@checked_dataclass(frozen=True, config=STRICT)
class CustomParameters(MemoryDecayParameters):
    """Parameters of a custom decay function: the parameters of `memory_decay` and the function's own `settings`.

    The function receives all parameters and may interpret `curve`, `soft_floor`, the rates and the weights freely: the
    service doesn't apply its own curves.
    """

    tick_seconds: Annotated[float, Field(ge=3_600, le=31_536_000, allow_inf_nan=False)] = DAY_SECONDS
    """Length of a tick: at least an hour, since the function is called for each tick."""
    settings: dict[str, _Setting] = Field(default_factory=dict, max_length=64)
    """Numbers passed to the function only."""

    @model_validator(mode="after")
    def _refreshed_in_time(self) -> CustomParameters:
        ticks = self.refresh_days * DAY_SECONDS / self.tick_seconds
        if ticks > REFRESH_TICKS_MAX:
            message = f"refresh_days may hold {REFRESH_TICKS_MAX} ticks of tick_seconds at most, not {ticks:.0f}"
            raise ValueError(f"{message}: each tick of each memory is a call of the function")
        return self


@dataclass(frozen=True)
class Stepping:
    """A custom function as a `Curve`; each tick of each memory is a call.

    Attributes:
        name: Name of the profile, for errors.
        compute: The function.
        params: Parameters that the function receives.
    """

    name: str
    compute: ComputeDecay
    params: dict[str, Any]

    def __call__(self, state: State) -> Callable[[Floats, Floats], Floats]:
        """Return a function that applies a tick to amounts and stabilities of these memories, shape (n,) or (2, n)."""
        types = np.where(IS_FACT[state.kind.astype(np.intp)], "fact", "episode")

        def after(amount: Floats, stability: Floats) -> Floats:
            shape = np.broadcast_shapes(amount.shape, stability.shape)
            columns = (np.broadcast_to(column, shape).ravel() for column in (amount, state.salience, stability, types))
            rows = zip(*(column.tolist() for column in columns), strict=True)
            return np.array([self._after(*row) for row in rows], np.float64).reshape(shape)

        return after

    def _after(self, amount: float, impact: float, stability: float, mtype: str) -> float:
        decayed = float(self.compute(amount, impact, stability, mtype, self.params))
        if math.isnan(decayed):
            arguments = f"activation {amount!r}, impact {impact!r}, stability {stability!r}, {mtype}"
            raise ArithmeticError(f"compute_decay of {self.name!r} returned NaN for {arguments}")
        return min(max(decayed, 0.0), amount)


def custom(name: str, compute: ComputeDecay) -> Callable[[CustomParameters], MemoryDecay]:
    """Return a factory for the decay function's model, to be registered as a profile of this name.

    The factory raises `ValueError` if the function returns invalid results with the given parameters.
    """

    def model(parameters: CustomParameters) -> MemoryDecay:
        params = asdict(parameters)
        params |= {seed: params[ours] for ours, seed in _SEED_NAMES.items()} | params.pop("settings")
        _try_out(compute, params)
        return MemoryDecay(parameters, Stepping(name, compute, params), name)

    return model


def _try_out(compute: ComputeDecay, params: dict[str, Any]) -> None:
    for activation, impact, stability, mtype in product(_AMOUNTS, _AMOUNTS, _AMOUNTS, ("fact", "episode")):
        arguments = f"for activation {activation}, impact {impact}, stability {stability}, {mtype}"
        try:
            decayed = float(compute(activation, impact, stability, mtype, params))
        except Exception as error:
            raise ValueError(f"compute_decay raises {type(error).__name__} {arguments}: {error}") from error
        if not 0 <= decayed <= 1:
            raise ValueError(f"compute_decay must return 0 to 1, not {decayed!r}, {arguments}")
        if decayed > activation + _SLACK:
            raise ValueError(
                f"compute_decay must not return more than the activation, but returned {decayed!r} {arguments}"
            )
