"""What the store has found for a search, and what time has made of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import numpy as np

from app.domain.dynamics.ops import Floats
from app.domain.ingest.roles import Role


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that the store found, with its base scores.

    Attributes:
        tier: Where it is kept: `active` and so on.
        words: Weighted share of the query's words, 0 to 1; the best memory of the search has 1.
        relevance: Cosine to the query, 0 to 1; the best memory of the search has 1.
        cosine: The same as it is, 0 to 1; 0 where there is no vector.
        supersedes: Memories that it has taken the place of; None where the tenant has none such.
        superseded_by: Memories that have taken its place; likewise.
        role: The speaker's effective role; None where it is unknown.
        before_id: The turn before it in its thread; None where there is none, or it wasn't looked up.
        is_embedded: False where it has no vector yet, or the query has none.
    """

    memory_id: UUID
    text: str
    subject: str | None
    thread: str | None
    speaker: str | None
    external_id: str | None
    kind: str | None
    tags: list[str]
    occurred_at: datetime | None
    created_at: datetime
    tier: str
    words: float
    relevance: float
    cosine: float
    supersedes: list[UUID] | None = None
    superseded_by: list[UUID] | None = None
    role: Role | None = None
    before_id: UUID | None = None
    is_embedded: bool = True


@dataclass(frozen=True, slots=True)
class Vitals:
    """What time has made of the candidates, in their order; every array has shape (n,).

    Attributes:
        strength: Live strength, 0 to 1; what decay takes away, and uses give back.
        recency: e^(-λ·days since the last use), 0 to 1, as importance has it.
        importance: Without a context, 0 to 1.
        salience: 0 to 1; ½ where nobody has scored it yet.
        retrieval: How easily it is found (memory_decay's A_r), 0 to 1; the strength in other profiles.
    """

    strength: Floats
    recency: Floats
    importance: Floats
    salience: Floats
    retrieval: Floats

    @classmethod
    def none(cls) -> Vitals:
        """Of no candidates."""
        return cls(*(np.empty(0) for _ in range(5)))
