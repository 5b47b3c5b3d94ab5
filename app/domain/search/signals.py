"""Compute the parts of the candidates' relevance to a query, each 0 to 1, and weigh them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.state import DAY_SECONDS
from app.domain.search.candidate_types import Candidate
from app.domain.search.parameters import Ranking
from app.domain.text.time_expressions import find_time_spans
from app.domain.text.words import (
    asks_assistant,
    asks_for_present,
    asks_for_time,
    find_speaker,
    is_in_first_person,
    is_named,
    query_names,
    states_time,
)

NEAR_DAYS: Final = 7.0
"""Days before or after the requested time within which a memory still counts, decreasing linearly."""


@dataclass(frozen=True, slots=True)
class QueryContext:
    """The query and reference time that candidates are compared with.

    Attributes:
        query: Plain words.
        now: Reference time for expressions such as "yesterday", in the tenant's time zone; None ignores times.
        fit: Each candidate's mean of words, soft words and relevance (those with a weight), 0 to 1, shape (n,).
    """

    query: str
    now: datetime | None
    fit: Floats


Signal = Callable[[Sequence[Candidate], QueryContext], Sequence[float] | Floats]
"""Function that returns a number from 0 to 1 for each candidate."""


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """Weighted parts of the candidates' relevance, shape (n,) each, by the name of the weight."""

    by_name: dict[str, Floats]

    @property
    def total(self) -> Floats:
        """Sum of the parts."""
        return np.asarray(np.sum(list(self.by_name.values()), axis=0), np.float64)

    def of_candidate(self, place: int) -> dict[str, float]:
        """Return the parts of one candidate."""
        return {name: float(part[place]) for name, part in self.by_name.items()}


def compute_parts(
    candidates: Sequence[Candidate],
    query: str,
    ranking: Ranking,
    now: datetime | None = None,
    soft_words: Floats | None = None,
) -> ScoreParts:
    """Return the parts of each candidate's relevance to the query.

    A candidate that matches the query neither by words nor by meaning gets 0 for all other parts.

    Args:
        ranking: The weight of each part.
        now: Reference time for expressions such as "yesterday", in the tenant's time zone; None ignores times.
        soft_words: Soft word match of each candidate, at least 0, shape (n,); None for no match.
    """
    base = {
        "words": np.array([candidate.words for candidate in candidates], np.float64),
        "soft_words": _by_best(np.zeros(len(candidates)) if soft_words is None else soft_words),
        "relevance": np.array([candidate.relevance for candidate in candidates], np.float64),
    }
    embedded = np.array([candidate.is_embedded for candidate in candidates], bool)
    if embedded.any():
        # Without a vector, a memory would rank below all memories with one, so its word scores replace the cosine until
        # it is embedded.
        base["relevance"] = np.where(embedded, base["relevance"], (base["words"] + base["soft_words"]) / 2)
    weights = {name: float(getattr(ranking, name)) for name in (*base, *SIGNALS)}
    counted = [part for name, part in base.items() if weights[name]]
    context = QueryContext(query, now, np.mean(counted, axis=0) if counted else np.zeros(len(candidates)))
    by_name = {name: weights[name] * part for name, part in base.items()}
    for name, signal in SIGNALS.items():
        part = np.asarray(signal(candidates, context), np.float64) if weights[name] else np.zeros(len(candidates))
        by_name[name] = weights[name] * np.where(context.fit > 0, part, 0.0)
    return ScoreParts(by_name)


def _by_best(part: Floats) -> Floats:
    """Divide a part by its largest value."""
    return part / (float(part.max(initial=0.0)) or 1.0)


def _role(candidates: Sequence[Candidate], asked: QueryContext) -> Sequence[float]:
    """Return 1 if the role matches: the user, or the assistant if the query asks for its words; unknown roles match."""
    role = "assistant" if asks_assistant(asked.query) else "user"
    return [candidate.role is None or candidate.role == role for candidate in candidates]


def _actor(candidates: Sequence[Candidate], asked: QueryContext) -> Sequence[float]:
    named = query_names(asked.query)
    speakers = [find_speaker(candidate.text, candidate.speaker) for candidate in candidates]
    known = {speaker: is_named(speaker, named) for speaker in set(speakers)}
    return [known[speaker] for speaker in speakers]


def _first_person(candidates: Sequence[Candidate], _: QueryContext) -> Sequence[float]:
    return [is_in_first_person(candidate.text) for candidate in candidates]


def _when(candidates: Sequence[Candidate], asked: QueryContext) -> Sequence[float]:
    timed = asks_for_time(asked.query)
    return [timed and states_time(candidate.text) for candidate in candidates]


def _moment(candidates: Sequence[Candidate], asked: QueryContext) -> Sequence[float] | Floats:
    """Return 1 within a time named in the query, decreasing linearly with the days before or after it."""
    happened = [candidate.occurred_at or candidate.created_at for candidate in candidates]
    named = find_time_spans(asked.query, asked.now, {moment.year for moment in happened}) if asked.now else []
    if not named:
        return [0.0] * len(candidates)
    at = np.array([moment.timestamp() for moment in happened])
    distances = [np.maximum(span.start.timestamp() - at, at - span.end.timestamp()) for span in named]
    return np.asarray(np.clip(1 - np.min(distances, axis=0) / (NEAR_DAYS * DAY_SECONDS), 0.0, 1.0), np.float64)


def _thread(candidates: Sequence[Candidate], asked: QueryContext) -> Floats:
    """Return the fit of the best other candidate of the thread, relative to the best such fit.

    A candidate whose thread has no other candidate uses its own fit. The last turn of an otherwise forgotten thread is
    therefore treated like a memory without a thread.
    """
    fits = asked.fit.tolist()
    best: dict[str, tuple[float, float]] = {}
    for candidate, fit in zip(candidates, fits, strict=True):
        if candidate.thread is not None:
            first, second = best.get(candidate.thread, (-1.0, -1.0))
            best[candidate.thread] = (fit, first) if fit > first else (first, max(second, fit))
    result = np.array(fits)
    for place, (candidate, fit) in enumerate(zip(candidates, fits, strict=True)):
        if candidate.thread is not None:
            first, second = best[candidate.thread]
            result[place] = first if fit < first else (second if second >= 0 else fit)
    return _by_best(result)


def _neighbours(candidates: Sequence[Candidate], asked: QueryContext) -> Floats:
    """Return the larger fit of the previous and the next turn in the thread, relative to the best such fit.

    A turn that is missing or not a candidate has a fit of 0.
    """
    # The keys are integers because hashing a UUID takes longer.
    places = {candidate.memory_id.int: place for place, candidate in enumerate(candidates)}
    larger = np.zeros(len(candidates))
    for place, candidate in enumerate(candidates):
        before_place = places.get(candidate.before_id.int) if candidate.before_id is not None else None
        if before_place is not None:
            larger[place] = max(larger[place], asked.fit[before_place])
            larger[before_place] = max(larger[before_place], asked.fit[place])
    return _by_best(larger)


def _now(candidates: Sequence[Candidate], asked: QueryContext) -> Floats:
    """Return positions in time, 0 for the oldest candidate to 1 for the newest, if the query asks for the present."""
    if not asks_for_present(asked.query) or len(candidates) < 2:
        return np.zeros(len(candidates))
    happened = [(candidate.occurred_at or candidate.created_at, candidate.memory_id) for candidate in candidates]
    order = sorted(range(len(candidates)), key=happened.__getitem__)
    places = np.empty(len(candidates))
    places[order] = np.linspace(0, 1, len(candidates))
    return places


SIGNALS: Final[dict[str, Signal]] = {
    "thread": _thread,
    "neighbours": _neighbours,
    "role": _role,
    "actor": _actor,
    "first_person": _first_person,
    "when": _when,
    "moment": _moment,
    "now": _now,
}
"""Parts of relevance other than words, soft words and relevance, by the name of their weight in the policy's
ranking."""
