"""What a profile makes of a memory's content: the kind, salience, multiplier and pace that its seed gives by it.

It is a suggestion: whatever the caller says itself wins, and so does a model's rating over a salience. Profiles
without such a rule, and those that an operator has installed, suggest nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from app.domain.dynamics import cmm, memory_decay, mnemex
from app.domain.ingest.memory import Kind
from app.domain.policy.policy import Forgetting
from app.domain.text import content


@dataclass(frozen=True, slots=True)
class Content:
    """What a rule may look at.

    Attributes:
        text: The memory's text.
        categories: The caller's, or those that were inferred where there are none.
        nearest: Cosine to the nearest earlier memory, 0 to 1; None if unknown.
    """

    text: str
    categories: Sequence[str] = ()
    nearest: float | None = None


class Suggested(NamedTuple):
    """What a profile suggests; None leaves a thing as it is.

    Attributes:
        kind: Where the caller gave none, over what was guessed.
        salience: 0 to 1, in place of the one by rules.
        multiplier: 0 to 2; 1 where the content is nothing special.
        pace: Above 0; likewise.
    """

    kind: Kind | None = None
    salience: float | None = None
    multiplier: float | None = None
    pace: float | None = None


Rule = Callable[[Content], Suggested]


def rule(forgetting: Forgetting) -> Rule | None:
    """What the chosen profile makes of content; None where it makes nothing of it."""
    match forgetting.profile:
        case "mnemex" if forgetting.by_content or forgetting.by_category:
            return partial(_mnemex, by_content=forgetting.by_content, by_category=forgetting.by_category)
        case "cmm":
            return _cmm
        case "memory_decay":
            return _memory_decay
        case _:
            return None


def _mnemex(memory: Content, *, by_content: bool, by_category: bool) -> Suggested:
    """Seed 000, context-aware strength and adaptive decay."""
    about = content.topic(memory.text) if by_content else None
    return Suggested(
        multiplier=mnemex.CONTENT_MULTIPLIERS.get(about or "", 1.0) if by_content else None,
        pace=mnemex.pace(memory.categories) if by_category else None,
    )


def _cmm(memory: Content) -> Suggested:
    """Seed 002, importance; as salience it counts half."""
    return Suggested(salience=cmm.CLASS_IMPORTANCES[content.importance_class(memory.text, memory.nearest)] / 2)


def _memory_decay(memory: Content) -> Suggested:
    """Seed 003, categories; of several the one that suggests the most."""
    label = next((label for label in memory_decay.CATEGORIES if label in memory.categories), None)
    return Suggested(*memory_decay.CATEGORIES[label]) if label else Suggested()
