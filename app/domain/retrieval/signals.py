"""The relevance of candidates to a query: its parts, each 0 to 1, and what each weighs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.state import DAY_SECONDS
from app.domain.moments import spans
from app.domain.retrieval.candidates import Candidate
from app.domain.retrieval.ranking import Ranking
from app.domain.wording import asks, asks_when, is_in_first_person, is_named, names, speaker_of, tells_when

NEAR_DAYS: Final = 7.0
"""How long before or after a time that is asked for a memory still counts, less and less."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the candidates are held against.

    Attributes:
        query: Plain words.
        now: What "yesterday" is told from, in the tenant's time zone; None leaves times unread.
        fit: Words and meaning of each candidate, weighted, shape (n,).
    """

    query: str
    now: datetime | None
    fit: Floats


Signal = Callable[[Sequence[Candidate], Asked], Sequence[float] | Floats]
"""Candidates and what they are held against to a number for each candidate, 0 to 1."""


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


def parts(candidates: Sequence[Candidate], query: str, ranking: Ranking, now: datetime | None = None) -> Parts:
    """The relevance of each candidate to the query.

    What fits the query neither by words nor by meaning, as they are weighted, has no other part either.

    Args:
        candidates: What was found.
        query: What was looked for.
        ranking: What each part weighs.
        now: What "yesterday" in the query is told from, in the tenant's time zone; None leaves times unread.
    """
    words = np.array([found.words for found in candidates], np.float64)
    relevance = np.array([found.relevance for found in candidates], np.float64)
    by_name = {"words": ranking.words * words, "relevance": ranking.relevance * relevance}
    asked = Asked(query, now, by_name["words"] + by_name["relevance"])
    for name, signal in SIGNALS.items():
        weight = float(getattr(ranking, name))
        part = np.asarray(signal(candidates, asked), np.float64) if weight else np.zeros(len(candidates))
        by_name[name] = weight * np.where(asked.fit > 0, part, 0.0)
    return Parts(by_name)


def _actor(candidates: Sequence[Candidate], asked: Asked) -> Sequence[float]:
    named = names(asked.query)
    speakers = [speaker_of(found.text, found.speaker) for found in candidates]
    known = {speaker: is_named(speaker, named) for speaker in set(speakers)}
    return [known[speaker] for speaker in speakers]


def _first_person(candidates: Sequence[Candidate], asked: Asked) -> Sequence[float]:
    named = _actor(candidates, asked)
    return [by_named and is_in_first_person(found.text) for found, by_named in zip(candidates, named, strict=True)]


def _when(candidates: Sequence[Candidate], asked: Asked) -> Sequence[float]:
    timed = asks_when(asked.query)
    return [timed and tells_when(found.text) for found in candidates]


def _statement(candidates: Sequence[Candidate], _: Asked) -> Sequence[float]:
    return [not asks(found.text) for found in candidates]


def _moment(candidates: Sequence[Candidate], asked: Asked) -> Sequence[float] | Floats:
    """1 within a time that the query names, less by the day before and after it."""
    happened = [found.occurred_at or found.created_at for found in candidates]
    named = spans(asked.query, asked.now, {moment.year for moment in happened}) if asked.now else []
    if not named:
        return [0.0] * len(candidates)
    at = np.array([moment.timestamp() for moment in happened])
    away = [np.maximum(span.start.timestamp() - at, at - span.end.timestamp()) for span in named]
    return np.asarray(np.clip(1 - np.min(away, axis=0) / (NEAR_DAYS * DAY_SECONDS), 0.0, 1.0), np.float64)


def _thread(candidates: Sequence[Candidate], asked: Asked) -> Sequence[float]:
    """The fit of the best other candidate of its thread, as a share of the best such; its own where there is none.

    So what is left of a talk whose rest is forgotten counts as what was said by itself does.
    """
    every = list(zip([found.thread for found in candidates], asked.fit.tolist(), strict=True))
    threads: dict[str, list[float]] = {}
    for thread, fit in every:
        if thread is not None:
            threads.setdefault(thread, []).append(fit)
    best = {thread: sorted(fits)[-2:] for thread, fits in threads.items()}
    others = []
    for thread, fit in every:
        own = best[thread] if thread is not None else [fit]
        others.append(own[0] if fit == own[-1] else own[-1])
    most = max(others, default=0.0) or 1.0
    return [other / most for other in others]


SIGNALS: Final[dict[str, Signal]] = {
    "actor": _actor,
    "first_person": _first_person,
    "when": _when,
    "statement": _statement,
    "moment": _moment,
    "thread": _thread,
}
"""Besides words and relevance; each named for its weight in the policy's ranking."""
