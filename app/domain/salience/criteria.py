"""Define the evidence that the salience rules read and the judgement that they return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.domain.ingest.roles import Role

CRITERIA = ("emotional", "novelty", "actionable", "personal")


class Criteria(NamedTuple):
    """The four criteria of seed 004 §1.3, each 0 to 10.

    Attributes:
        emotional: Intensity of the speaker's feelings.
        novelty: How unique or surprising the content is.
        actionable: Decisions, commitments and tasks.
        personal: Significance to the person.
    """

    emotional: float
    novelty: float
    actionable: float
    personal: float


class Turn(NamedTuple):
    """A turn of the memory's thread.

    Attributes:
        text: The turn's text.
        speaker: Name of the speaker, if known.
        role: The speaker's role, if known.
    """

    text: str
    speaker: str | None = None
    role: Role | None = None


class Reason(NamedTuple):
    """A feature's part in a memory's keep chance.

    Attributes:
        feature: The feature, in words.
        points: Its part of the log-odds, compared with an average memory; negative if it lowers the chance.
    """

    feature: str
    points: float


@dataclass(frozen=True, slots=True)
class ScoringEvidence:
    """Inputs of the rules for one memory.

    Attributes:
        text: The memory's text.
        speaker: Name of the speaker, if known.
        role: The speaker's role, if known; it takes precedence over the speaker's name.
        kind: The kind given by the caller, if any.
        tags: The tags given by the caller.
        rarity: Mean idf of its content words among the tenant's memories divided by ln(N + 1), 0 to 1; None if unknown.
        nearest: Cosine to the nearest earlier memory, 0 to 1; None if unknown.
        before: Turns before the memory in its thread, nearest first; the rules read the first two.
    """

    text: str
    speaker: str | None = None
    kind: str | None = None
    tags: Sequence[str] = ()
    rarity: float | None = None
    nearest: float | None = None
    role: Role | None = None
    before: Sequence[Turn] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """Salience of one memory, and how uncertain the rules are.

    Attributes:
        criteria: The four criteria, each 0 to 10.
        salience: Sum of the criteria divided by 40, 0 to 1.
        uncertainty: Expected difference from a careful reader's rating, 0 to 1; a model should rate the most uncertain
            memories first.
        kind: Inferred kind, if the caller gave none and the features suggest one; never `system`.
        entities: Distinct names, dates and handles in order of appearance.
        keep_chance: Probability that a careful reader would still find the memory worth knowing in a year, 0 to 1.
    """

    criteria: Criteria
    salience: float
    uncertainty: float
    kind: str | None
    entities: tuple[str, ...]
    keep_chance: float


def salience(criteria: Criteria) -> float:
    """Return the sum of the criteria divided by 40, 0 to 1 (seed 004 §1.3)."""
    return sum(criteria) / 40
