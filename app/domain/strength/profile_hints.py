"""Suggest kind, salience, multiplier and pace from a memory's content by the rules of the profile's seed.

Suggestions have the lowest precedence: the caller's values override them, and a model's rating overrides a suggested
salience.
Profiles without such rules, and profiles installed by an operator, suggest nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from app.domain.dynamics import cmm, memory_decay, mnemex
from app.domain.ingest.memory import Kind
from app.domain.policy.policy import Forgetting
from app.domain.text import content_class


@dataclass(frozen=True, slots=True)
class RatedContent:
    """Inputs of a rule.

    Attributes:
        text: The memory's text.
        categories: The caller's categories, or the inferred categories if the caller set none.
        nearest: Cosine to the nearest earlier memory, 0 to 1; None if unknown.
    """

    text: str
    categories: Sequence[str] = ()
    nearest: float | None = None


class SuggestedValues(NamedTuple):
    """Values that a profile suggests; None leaves a value unchanged.

    Attributes:
        kind: Replaces the inferred kind if the caller gave none.
        salience: Replaces the rule-based salience, 0 to 1.
        multiplier: Factor on the score of `mnemex`, 0 to 2; 1 for unremarkable content.
        pace: Factor on the age in `mnemex`, above 0; 1 for unremarkable content.
    """

    kind: Kind | None = None
    salience: float | None = None
    multiplier: float | None = None
    pace: float | None = None


Rule = Callable[[RatedContent], SuggestedValues]


def content_rule(forgetting: Forgetting) -> Rule | None:
    """Return the content rule of the chosen profile; None if it has none."""
    match forgetting.profile:
        case "mnemex" if forgetting.by_content or forgetting.by_category:
            return partial(_mnemex, by_content=forgetting.by_content, by_category=forgetting.by_category)
        case "cmm":
            return _cmm
        case "memory_decay":
            return _memory_decay
        case _:
            return None


def _mnemex(memory: RatedContent, *, by_content: bool, by_category: bool) -> SuggestedValues:
    """Apply seed 000: context-aware strength and adaptive decay."""
    topic = content_class.topic(memory.text) if by_content else None
    return SuggestedValues(
        multiplier=mnemex.CONTENT_MULTIPLIERS.get(topic or "", 1.0) if by_content else None,
        pace=mnemex.pace(memory.categories) if by_category else None,
    )


def _cmm(memory: RatedContent) -> SuggestedValues:
    """Apply seed 002's importance classes; salience is half the class's importance."""
    return SuggestedValues(
        salience=cmm.CLASS_IMPORTANCES[content_class.importance_class(memory.text, memory.nearest)] / 2
    )


def _memory_decay(memory: RatedContent) -> SuggestedValues:
    """Apply seed 003's categories; if a memory has several, the first in `CATEGORIES` counts."""
    label = next((label for label in memory_decay.CATEGORIES if label in memory.categories), None)
    return SuggestedValues(*memory_decay.CATEGORIES[label]) if label else SuggestedValues()
