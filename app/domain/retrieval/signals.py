"""The relevance of candidates to a query: its parts, each 0 to 1, and what each weighs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.domain.dynamics.ops import Floats
from app.domain.retrieval.candidates import Candidate
from app.domain.retrieval.ranking import Ranking
from app.domain.wording import asks_when, is_named, names, speaker_of, tells_when

Signal = Callable[[Sequence[Candidate], str], Sequence[float]]
"""Candidates and the query to a number for each candidate, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What makes up the candidates' relevance: by the name of its weight, weighted, shape (n,)."""

    by_name: dict[str, Floats]

    @property
    def total(self) -> Floats:
        """The sum."""
        return np.asarray(np.sum(list(self.by_name.values()), axis=0), np.float64)

    def of(self, place: int) -> dict[str, float]:
        """The parts of one candidate."""
        return {name: float(part[place]) for name, part in self.by_name.items()}


def parts(candidates: Sequence[Candidate], query: str, ranking: Ranking) -> Parts:
    """The relevance of each candidate to the query."""
    return Parts(
        {
            name: float(getattr(ranking, name)) * np.asarray(signal(candidates, query), np.float64)
            for name, signal in SIGNALS.items()
        }
    )


def _words(candidates: Sequence[Candidate], _: str) -> Sequence[float]:
    return [found.words for found in candidates]


def _relevance(candidates: Sequence[Candidate], _: str) -> Sequence[float]:
    return [found.relevance for found in candidates]


def _actor(candidates: Sequence[Candidate], query: str) -> Sequence[float]:
    named = names(query)
    return [is_named(speaker_of(found.text, found.speaker), named) for found in candidates]


def _when(candidates: Sequence[Candidate], query: str) -> Sequence[float]:
    timed = asks_when(query)
    return [timed and tells_when(found.text) for found in candidates]


SIGNALS: Final[dict[str, Signal]] = {"words": _words, "relevance": _relevance, "actor": _actor, "when": _when}
"""Each named for its weight in the policy's ranking."""
