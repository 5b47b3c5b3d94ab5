"""The relevance of candidates to a query: its parts, each 0 to 1, and what each weighs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.state import DAY_SECONDS
from app.domain.search.candidates import Candidate
from app.domain.search.ranking import Ranking
from app.domain.text.moments import spans
from app.domain.text.wording import (
    asks_assistant,
    asks_now,
    asks_when,
    is_in_first_person,
    is_named,
    names,
    speaker_of,
    tells_when,
)

NEAR_DAYS: Final = 7.0
"""How long before or after a time that is asked for a memory still counts, less and less."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The query and moment that candidates are compared with.

    Attributes:
        query: Plain words.
        now: The moment from which "yesterday" is counted, in the tenant's time zone; None leaves times unread.
        fit: Each candidate's mean of words, soft words and relevance, 0 to 1, shape (n,).
    """

    query: str
    now: datetime | None
    fit: Floats


Signal = Callable[[Sequence[Candidate], Asked], Sequence[float] | Floats]
"""A function from candidates and what they are compared with to a number for each candidate, 0 to 1."""


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


def parts(
    candidates: Sequence[Candidate],
    query: str,
    ranking: Ranking,
    now: datetime | None = None,
    soft_words: Floats | None = None,
) -> Parts:
    """Return the parts of each candidate's relevance to the query.

    A candidate that fits the query neither by words nor by meaning has no other part either.

    Args:
        candidates: What was found.
        query: What was looked for.
        ranking: The weight of each part.
        now: The moment from which "yesterday" is counted, in the tenant's time zone; None leaves times unread.
        soft_words: How closely each candidate's words match the query's, at least 0, shape (n,); None for no match.
    """
    base = {
        "words": np.array([found.words for found in candidates], np.float64),
        "soft_words": _by_best(np.zeros(len(candidates)) if soft_words is None else soft_words),
        "relevance": np.array([found.relevance for found in candidates], np.float64),
    }
    embedded = np.array([found.is_embedded for found in candidates], bool)
    if embedded.any():
        # Beside memories with vectors, one without would sink: its words stand in until it is embedded.
        base["relevance"] = np.where(embedded, base["relevance"], (base["words"] + base["soft_words"]) / 2)
    weights = {name: float(getattr(ranking, name)) for name in (*base, *SIGNALS)}
    counted = [part for name, part in base.items() if weights[name]]
    asked = Asked(query, now, np.mean(counted, axis=0) if counted else np.zeros(len(candidates)))
    by_name = {name: weights[name] * part for name, part in base.items()}
    for name, signal in SIGNALS.items():
        part = np.asarray(signal(candidates, asked), np.float64) if weights[name] else np.zeros(len(candidates))
        by_name[name] = weights[name] * np.where(asked.fit > 0, part, 0.0)
    return Parts(by_name)


def _by_best(part: Floats) -> Floats:
    """Return the part as shares of its largest value."""
    return part / (float(part.max(initial=0.0)) or 1.0)


def _role(candidates: Sequence[Candidate], asked: Asked) -> Sequence[float]:
    """1 for what the user said, or for what the assistant said when that is asked for; an unknown role counts as 1."""
    wanted = "assistant" if asks_assistant(asked.query) else "user"
    return [found.role is None or found.role == wanted for found in candidates]


def _actor(candidates: Sequence[Candidate], asked: Asked) -> Sequence[float]:
    named = names(asked.query)
    speakers = [speaker_of(found.text, found.speaker) for found in candidates]
    known = {speaker: is_named(speaker, named) for speaker in set(speakers)}
    return [known[speaker] for speaker in speakers]


def _first_person(candidates: Sequence[Candidate], _: Asked) -> Sequence[float]:
    return [is_in_first_person(found.text) for found in candidates]


def _when(candidates: Sequence[Candidate], asked: Asked) -> Sequence[float]:
    timed = asks_when(asked.query)
    return [timed and tells_when(found.text) for found in candidates]


def _moment(candidates: Sequence[Candidate], asked: Asked) -> Sequence[float] | Floats:
    """1 within a time that the query names, less by the day before and after it."""
    happened = [found.occurred_at or found.created_at for found in candidates]
    named = spans(asked.query, asked.now, {moment.year for moment in happened}) if asked.now else []
    if not named:
        return [0.0] * len(candidates)
    at = np.array([moment.timestamp() for moment in happened])
    away = [np.maximum(span.start.timestamp() - at, at - span.end.timestamp()) for span in named]
    return np.asarray(np.clip(1 - np.min(away, axis=0) / (NEAR_DAYS * DAY_SECONDS), 0.0, 1.0), np.float64)


def _thread(candidates: Sequence[Candidate], asked: Asked) -> Floats:
    """The fit of the best other candidate of its thread, as a share of the best such; its own where there is none.

    So what is left of a thread whose other turns are forgotten counts as a memory without a thread does.
    """
    fits = asked.fit.tolist()
    best: dict[str, tuple[float, float]] = {}
    for found, fit in zip(candidates, fits, strict=True):
        if found.thread is not None:
            first, second = best.get(found.thread, (-1.0, -1.0))
            best[found.thread] = (fit, first) if fit > first else (first, max(second, fit))
    others = np.array(fits)
    for place, (found, fit) in enumerate(zip(candidates, fits, strict=True)):
        if found.thread is not None:
            first, second = best[found.thread]
            others[place] = first if fit < first else (second if second >= 0 else fit)
    return _by_best(others)


def _neighbours(candidates: Sequence[Candidate], asked: Asked) -> Floats:
    """The larger fit of the turns before and after it in its thread, as a share of the best such.

    A turn that is no candidate, or isn't there, has no fit.
    """
    places = {found.memory_id: place for place, found in enumerate(candidates)}
    larger = np.zeros(len(candidates))
    for place, found in enumerate(candidates):
        before = places.get(found.before_id) if found.before_id is not None else None
        if before is not None:
            larger[place] = max(larger[place], asked.fit[before])
            larger[before] = max(larger[before], asked.fit[place])
    return _by_best(larger)


def _now(candidates: Sequence[Candidate], asked: Asked) -> Floats:
    """Places in time, 0 for the oldest candidate to 1 for the newest, when the query asks for the present."""
    if not asks_now(asked.query) or len(candidates) < 2:
        return np.zeros(len(candidates))
    happened = [(found.occurred_at or found.created_at, found.memory_id) for found in candidates]
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
"""Parts of relevance beside words, soft words and relevance; each is named for its weight in the policy's ranking."""
