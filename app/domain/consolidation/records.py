"""What the steps of consolidation hand to each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

Form = Literal["summary", "support", "narrative", "duplicates"]
"""What a summary is to be: of a whole group, of what isn't kept beside it, of events in their order, of repeats."""
Method = Literal["llm", "extractive"]


@dataclass(frozen=True, slots=True)
class Group:
    """Memories that belong together, all of one subject.

    Attributes:
        ids: In ascending order, 2 or more.
        cohesion: Mean cosine of their pairs, -1 to 1.
    """

    ids: list[UUID]
    cohesion: float


@dataclass(frozen=True, slots=True)
class Source:
    """A memory whose text goes into a summary.

    Attributes:
        memory_id: Its id.
        text: What it says.
        speaker: Who said it.
        said_at: When, in seconds since 1970: as its caller said, else when it was accepted.
        importance: At the moment of the run, 0 to 1.
    """

    memory_id: UUID
    text: str = field(repr=False)
    speaker: str | None
    said_at: float
    importance: float


@dataclass(frozen=True, slots=True)
class Summary:
    """What sources say in fewer words.

    Attributes:
        text: The summary.
        key_points: What it must not lose, a line each.
        method: Who wrote it.
        model: Its name, where a model did.
    """

    text: str = field(repr=False)
    key_points: tuple[str, ...] = field(repr=False)
    method: Method
    model: str | None = None
