"""The models of forgetting by name, and the way from one to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from pydantic import TypeAdapter

from app.domain.dynamics.cmm import Cmm, CmmParameters
from app.domain.dynamics.memory_decay import MemoryDecay, MemoryDecayParameters
from app.domain.dynamics.mnemex import Mnemex, MnemexParameters
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.spec import Spec, SpecParameters
from app.domain.dynamics.state import State, when


@dataclass(frozen=True, slots=True)
class Profile:
    """A model and what its parameters are.

    Attributes:
        model: Makes a `Dynamics` of its parameters: a class, or a function.
        parameters: Their frozen dataclass; without any given, it is the defaults.
    """

    model: Callable[[Any], Any]
    parameters: type


PROFILES: Final[dict[str, Profile]] = {
    "spec": Profile(Spec, SpecParameters),
    "mnemex": Profile(Mnemex, MnemexParameters),
    "cmm": Profile(Cmm, CmmParameters),
    "memory_decay": Profile(MemoryDecay, MemoryDecayParameters),
}
"""By the name that a policy uses; plugins are added as a process starts."""
BUILT_IN: Final = frozenset(PROFILES)
"""Those that come along."""


def profile(name: str, parameters: Mapping[str, Any] | None = None) -> Dynamics:
    """A model of forgetting, ready to use.

    Args:
        name: One of `PROFILES`.
        parameters: Those that differ from the defaults, as JSON has them.

    Raises:
        ValueError: There is no such profile or parameter, or a value makes no sense; says which.
    """
    if name not in PROFILES:
        raise ValueError(f"unknown dynamics {name!r}: use one of {', '.join(PROFILES)}")
    found = PROFILES[name]
    dynamics: Dynamics = found.model(TypeAdapter(found.parameters).validate_python(parameters or {}))
    return dynamics


def rebase(state: State, now: float, source: Dynamics, target: Dynamics, inputs: State | None = None) -> State:
    """The state with its past settled under `source`, to fade from `now` on under `target`.

    Strength at `now` is the same before and after, where the target can express it: mnemex alone goes above 1, and
    has no strength for a multiplier of 0.

    Args:
        state: The memories as they are.
        now: The moment of the change.
        source: What they were under.
        target: What they are under from now on; the same, where only inputs change.
        inputs: The same rows with the inputs (kind, salience, pace, times, uses) that hold from now on, for a late
            score or an edit. Not for mnemex's multiplier: that is meant to change the score.
    """
    settled = source.advance(state, now)
    score = source.score(settled, now)
    if source.name != target.name:
        strength = np.minimum(score, 1)
        settled = replace(settled, anchored_at=when(state, now), level=np.zeros_like(score), retrieval=strength)
        settled = replace(settled, stability=np.zeros_like(score))
    if inputs is not None:
        held = ("anchored_at", "level", "retrieval", "stability")
        settled = replace(inputs, **{name: getattr(settled, name) for name in held})
    return target.at_strength(settled, now, score)
