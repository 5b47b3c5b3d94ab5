"""What is known of a memory before it is judged, and what the judgement says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.domain.ingest.roles import Role

CRITERIA = ("emotional", "novelty", "actionable", "personal")


class Criteria(NamedTuple):
    """The four criteria of seed 004 §1.3, each 0 to 10.

    Attributes:
        emotional: How strongly the one who speaks feels.
        novelty: How unique or surprising it is.
        actionable: Decisions, commitments and what has to be done.
        personal: What it means to the person.
    """

    emotional: float
    novelty: float
    actionable: float
    personal: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the rules may look at.

    Attributes:
        text: The memory's text.
        speaker: Who said it, if known.
        role: The speaker's role, if known; it decides over the speaker's name.
        kind: The caller's kind, if given.
        tags: The caller's tags.
        rarity: Mean idf of its content words among the tenant's memories by ln(N + 1), 0 to 1; None if unknown.
        nearest: Cosine to the nearest earlier memory, 0 to 1; None if unknown.
    """

    text: str
    speaker: str | None = None
    kind: str | None = None
    tags: Sequence[str] = ()
    rarity: float | None = None
    nearest: float | None = None
    role: Role | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """How much a memory matters, and how sure the rules are.

    Attributes:
        criteria: Each 0 to 10.
        salience: Their sum by 40, 0 to 1.
        uncertainty: 0 to 1; how far a careful reader may differ. The highest is worth asking a model first.
        kind: A guess where the caller gave none and something speaks for one; never `system`.
        entities: Names, dates and handles in the text, in order, each once.
    """

    criteria: Criteria
    salience: float
    uncertainty: float
    kind: str | None
    entities: tuple[str, ...]


def salience(criteria: Criteria) -> float:
    """The sum of the criteria by 40, 0 to 1 (seed 004 §1.3)."""
    return sum(criteria) / 40
