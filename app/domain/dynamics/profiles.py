"""Registry of forgetting models by name, and conversion of states between them."""

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
    """A model and the type of its parameters.

    Attributes:
        model: Creates a `Dynamics` from its parameters: a class or a function.
        parameters: Frozen dataclass of the parameters, with defaults for all of them.
    """

    model: Callable[[Any], Any]
    parameters: type


PROFILES: Final[dict[str, Profile]] = {
    "spec": Profile(Spec, SpecParameters),
    "mnemex": Profile(Mnemex, MnemexParameters),
    "cmm": Profile(Cmm, CmmParameters),
    "memory_decay": Profile(MemoryDecay, MemoryDecayParameters),
}
"""Profiles by their name in a policy; plugins are added at process start."""
BUILT_IN: Final = frozenset(PROFILES)
"""Names of the built-in profiles."""


def profile(name: str, parameters: Mapping[str, Any] | None = None) -> Dynamics:
    """Return a forgetting model.

    Args:
        name: A key of `PROFILES`.
        parameters: Parameters that differ from the defaults, as in JSON.

    Raises:
        ValueError: The profile or a parameter is unknown, or a value is invalid; the message says which.
    """
    if name not in PROFILES:
        raise ValueError(f"unknown dynamics {name!r}: use one of {', '.join(PROFILES)}")
    entry = PROFILES[name]
    dynamics: Dynamics = entry.model(TypeAdapter(entry.parameters).validate_python(parameters or {}))
    return dynamics


def rebase(state: State, now: float, source: Dynamics, target: Dynamics, inputs: State | None = None) -> State:
    """Return the state after a change of model at `now`: `source` calculates the decay until then, `target` afterwards.

    The score at `now` stays the same if the target can represent it: only mnemex has scores above 1, and its score is
    always 0 for a multiplier of 0.

    Args:
        state: The memories as stored.
        now: The moment of the change.
        source: The model before the change.
        target: The model after the change; the same model if only inputs change.
        inputs: The same rows with the inputs (kind, salience, pace, times, uses) that apply from now on, for a late
            score or an edit. Don't change mnemex's multiplier this way: that change is meant to change the score.
    """
    settled = source.advance(state, now)
    score = source.score(settled, now)
    if source.name != target.name:
        strength = np.minimum(score, 1)
        settled = replace(settled, anchored_at=when(state, now), level=np.zeros_like(score), retrieval=strength)
        settled = replace(settled, stability=np.zeros_like(score))
    if inputs is not None:
        anchored_fields = ("anchored_at", "level", "retrieval", "stability")
        settled = replace(inputs, **{name: getattr(settled, name) for name in anchored_fields})
    return target.at_strength(settled, now, score)
