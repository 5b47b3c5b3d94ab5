"""Score the probability that any memory is relevant to a conversation."""

from __future__ import annotations

import math
from typing import Final

from app.domain.recall.conversation_features import ConversationFeatures

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


def gate_features(form: ConversationFeatures, rarest: float, closest: float) -> dict[str, float]:
    """Return the features that `WEIGHTS` weighs, by name.

    Args:
        form: Form of the conversation.
        rarest: Highest weight of a word of the conversation that occurs in any memory, 0 to 1.
        closest: Highest closeness among the candidate memories, 0 to 1.
    """
    form_features = {name: float(getattr(form, name)) for name in WEIGHTS if hasattr(form, name)}
    return form_features | {"rarest": rarest, "closest": closest}


def openness(features: dict[str, float]) -> float:
    """Return the openness of the gate, 0 to 1: a logistic regression on the features."""
    return 1 / (1 + math.exp(-(BIAS + sum(weight * features[name] for name, weight in WEIGHTS.items()))))
