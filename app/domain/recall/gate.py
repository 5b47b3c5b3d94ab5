"""The gate: how likely a conversation is one that a memory helps with at all."""

from __future__ import annotations

import math
from typing import Final

from app.domain.recall.form import Form

WEIGHTS: Final[dict[str, float]] = {
    "about_self": 1.6,
    "worldly": -2.3,
    "general": -3.4,
    "phatic": -4.0,
    "chatting": -4.9,
    "when": 1.2,
    "name": 1.0,
    "length": 4.8,
    "rarest": 0.5,
    "closest": 8.7,
}
BIAS: Final = -4.8


def gate_features(form: Form, rarest: float, closest: float) -> dict[str, float]:
    """Return the features that `WEIGHTS` weighs, by name.

    Args:
        form: The form of what was said.
        rarest: The highest weight of a word of the conversation that any memory has, 0 to 1.
        closest: The highest closeness of a memory that is judged, 0 to 1.
    """
    found = {name: float(getattr(form, name)) for name in WEIGHTS if hasattr(form, name)}
    return found | {"rarest": rarest, "closest": closest}


def openness(features: dict[str, float]) -> float:
    """Return how far the gate opens, 0 to 1: a logistic regression on the features."""
    return 1 / (1 + math.exp(-(BIAS + sum(weight * features[name] for name, weight in WEIGHTS.items()))))
