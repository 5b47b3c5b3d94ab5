"""Data passed between the steps of consolidation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

Form = Literal["summary", "support", "narrative", "duplicates"]
"""Kind of summary: of a whole group, of its less important members, of events in order, of near-duplicates."""
Method = Literal["llm", "extractive"]


@dataclass(frozen=True, slots=True)
class Group:
    """Memories that belong together, all with the same subject.

    Attributes:
        ids: In ascending order, 2 or more.
        cohesion: Mean cosine of their pairs, -1 to 1.
    """

    ids: list[UUID]
    cohesion: float


@dataclass(frozen=True, slots=True)
class Source:
    """A memory that is an input of a summary.

    Attributes:
        said_at: Seconds since 1970: the caller's timestamp, or the time of acceptance if there is none.
        importance: Importance at the moment of the run, 0 to 1.
    """

    memory_id: UUID
    text: str = field(repr=False)
    speaker: str | None
    said_at: float
    importance: float


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary of several sources.

    Attributes:
        key_points: Points that the summary must retain, one line each.
        method: `llm` if a model wrote the text, `extractive` if its sentences come from the sources.
        model: Name of the model, if one wrote it.
    """

    text: str = field(repr=False)
    key_points: tuple[str, ...] = field(repr=False)
    method: Method
    model: str | None = None
