"""Score the probability that each memory is helpful, given that the gate is open."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from app.domain.dynamics.ops import Floats
from app.domain.ingest.roles import Role, infer_role

WEIGHTS: Final[dict[str, float]] = {
    "near": 3.4,
    "close": 7.7,
    "kin": 2.0,
    "user": 1.3,
    "personal": 1.7,
    "bridge": 4.3,
    "day": 2.1,
    "cue": 4.3,
}
BIAS: Final = -7.1
_OF_ASSISTANT: Final = 0.5
"""Factor on bridges and cues of the assistant's statements; statements of people have a factor of 1."""


@dataclass(frozen=True, slots=True)
class WorthFeatures:
    """Features of n memories in one conversation, each 0 to 1, shape (n,).

    Attributes:
        near: Weighted share of the conversation's words that occur in the memory.
        close: Closeness of meaning.
        kin: Kinship of the conversation's words to the memory's words, from `word_kinship.compute_kinship`.
        user: 0 for a statement of the assistant, otherwise 1.
        personal: The personal criterion of the memory's salience score.
        bridge: Rarity of the rarest bridge from the conversation to the memory.
        day: Rarity of the rarest day or month in both conversation and memory; 0 for statements of the assistant.
        cue: Rarity of the rarest of the memory's cues that occurs in the conversation.
    """

    near: Floats
    close: Floats
    kin: Floats
    user: Floats
    personal: Floats
    bridge: Floats
    day: Floats
    cue: Floats


def compute_worth(features: WorthFeatures) -> Floats:
    """Return the worth of each memory, 0 to 1, shape (n,): a logistic regression on the features."""
    total = np.full(len(features.near), BIAS)
    for field in fields(features):
        total += WEIGHTS[field.name] * getattr(features, field.name)
    # Cues (from a model) and bridges (from a list) express the same association, so only the larger term counts.
    total -= np.minimum(WEIGHTS["cue"] * features.cue, WEIGHTS["bridge"] * features.bridge)
    return np.asarray(1 / (1 + np.exp(-total)))


def said_by_user(role: Role | None, speaker: str | None) -> float:
    """Return 0 for a statement of the assistant, otherwise 1."""
    return float(infer_role(role, speaker) != "assistant")


def reminding(flags: Floats, rarity: Floats, user: Floats, *, of_days: bool) -> Floats:
    """Return the rarity of the rarest flag or cue that each memory shares with the conversation, shape (n,), 0 to 1.

    It is reduced for statements of the assistant.

    Args:
        flags: 1 where a memory has a flag or cue that the conversation asks for, otherwise 0, shape (n, flags).
        rarity: Rarity of each flag or cue among the memories, shape (flags,).
        user: As in `WorthFeatures`.
        of_days: True for days and months, which don't count in statements of the assistant; false for bridges and
            cues.
    """
    best = np.max(flags * rarity, axis=1, initial=0.0)
    return np.asarray(best * np.where(user > 0, 1.0, 0.0 if of_days else _OF_ASSISTANT))
