"""Define the candidates of a search and their time-dependent scores."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import numpy as np
from msgspec import Struct

from app.domain.dynamics.ops import Floats
from app.domain.ingest.roles import Role
from app.domain.ingest.sources import Source


class Candidate(Struct, frozen=True, gc=False):
    """A memory fetched by the store, with its base scores.

    A search creates up to 200 candidates; creating frozen dataclasses would take ten times as long.

    Attributes:
        tier: Storage tier, such as `active`.
        words: Weighted share of the query's words, 0 to 1, scaled so that the best candidate has 1.
        relevance: Cosine to the query, 0 to 1, scaled so that the best candidate has 1.
        cosine: Unscaled cosine, 0 to 1; 0 if the memory has no vector.
        supersedes: Memories that this memory supersedes; None if the tenant has no supersessions.
        superseded_by: Memories that supersede this memory; None if the tenant has no supersessions.
        role: The speaker's effective role; None if unknown.
        before_id: The previous turn in the memory's thread; None if there is no previous turn or it wasn't looked up.
        is_embedded: False if the memory has no vector yet or the query has none.
        metadata: The metadata as JSON; decoded only when the candidate becomes a result.
        source: Who wrote it; None if it is unknown.
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
    categories: list[str] = []
    entities: list[str] = []
    metadata: str | None = None
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class CandidateStrength:
    """Time-dependent scores of the candidates, in their order; every array has shape (n,).

    Attributes:
        strength: Current strength, 0 to 1; decays over time and rises with use.
        recency: e^(-λ·days since the last use), 0 to 1, as in importance.
        importance: Importance without a context, 0 to 1.
        salience: Salience score, 0 to 1; ½ if not scored yet.
        retrieval: Retrieval strength (memory_decay's A_r), 0 to 1; equals the strength in other profiles.
    """

    strength: Floats
    recency: Floats
    importance: Floats
    salience: Floats
    retrieval: Floats

    @classmethod
    def empty(cls) -> CandidateStrength:
        """Return empty arrays, for no candidates."""
        return cls(*(np.empty(0) for _ in range(5)))
