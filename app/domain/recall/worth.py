"""Worth: how likely a memory is one that helps, once the gate is open."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from app.domain.dynamics.ops import Floats
from app.domain.ingest.roles import Role, role_of

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
"""Worth of a bridge or cue to what the assistant said, as a share of one to what a person said."""


@dataclass(frozen=True, slots=True)
class Features:
    """Features of n memories in one conversation, each 0 to 1, shape (n,).

    Attributes:
        near: Share of the conversation's words that a memory has, by their weights.
        close: Closeness in meaning.
        kin: A word of the conversation whose nearest word in the memory is unusually close to it.
        user: 0 for what the assistant said, 1 for anybody else's words.
        personal: What the memory says about a person, by its salience score.
        bridge: The rarest bridge that leads from the conversation to the memory.
        day: The rarest day or month that both name; for memories of people alone.
        cue: The rarest of the memory's cues that the conversation says.
    """

    near: Floats
    close: Floats
    kin: Floats
    user: Floats
    personal: Floats
    bridge: Floats
    day: Floats
    cue: Floats


def worth(features: Features) -> Floats:
    """Return the worth of each memory, 0 to 1, shape (n,): a logistic regression on the features."""
    total = np.full(len(features.near), BIAS)
    for field in fields(features):
        total += WEIGHTS[field.name] * getattr(features, field.name)
    # A cue and a bridge say the same thing, one by a model and one by a list: only the larger of the two counts.
    total -= np.minimum(WEIGHTS["cue"] * features.cue, WEIGHTS["bridge"] * features.bridge)
    return np.asarray(1 / (1 + np.exp(-total)))


def said_by_user(role: Role | None, speaker: str | None) -> float:
    """Return 0 for what the assistant said, 1 for anybody else's words."""
    return float(role_of(role, speaker) != "assistant")


def reminding(flags: Floats, rarity: Floats, user: Floats, *, of_days: bool) -> Floats:
    """Return the rarity of the rarest flag or cue that a memory shares with the conversation, 0 to 1, shape (n,).

    Args:
        flags: The flags or cues that the conversation asks for and a memory has, 0 or 1, shape (n, flags).
        rarity: Rarity of each among the memories, shape (flags,).
        user: As in `Features`.
        of_days: The flags are days and months, which count in memories of people alone, rather than bridges or cues.
    """
    best = np.max(flags * rarity, axis=1, initial=0.0)
    return np.asarray(best * np.where(user > 0, 1.0, 0.0 if of_days else _OF_ASSISTANT))
