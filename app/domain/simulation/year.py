"""Generate a simulated year: who says what on which day, which statements matter, and which questions follow.

Each seed always produces the same year. Only this module knows which statements matter; the service receives plain
texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from app.domain.ingest.roles import Role
from app.domain.simulation.topics import CHATTER, FILLINGS, PEOPLE, TOPICS, Topic

Chance = np.random.Generator

SEED: Final = 1
"""Seed of the year used for all tuning; reported figures are also measured on other seeds."""
DAYS: Final = 365
IMPORTANT_SHARE: Final = 0.1
RESTATED_SHARE: Final = 0.15
CHANGED_SHARE: Final = 0.5
"""Share of the changeable facts that change; nearly a quarter of the facts are changeable."""
NEVER_ASKED_SHARE: Final = 0.2
ASKED_TIMES: Final = 4.0
"""Mean number of searches per fact and year; the numbers are Zipf-distributed: a few facts often, most hardly ever."""
REPEATED_SHARE: Final = 0.1
"""Share of the chatter that repeats earlier chatter verbatim."""


@dataclass(frozen=True, slots=True)
class SimulatedStatement:
    """A statement.

    Attributes:
        day: Days since the start of the year.
        person: The subject, who is also the speaker unless `role` is the assistant's.
        text: The statement.
        fact: Index in `Year.facts`; None for chatter.
        role: The speaker's role in a conversation with an assistant; None outside of one.
        language: ISO 639-1 code.
    """

    day: float
    person: str
    text: str
    fact: int | None = None
    role: Role | None = None
    language: str = "en"


@dataclass(frozen=True, slots=True)
class SimulatedFact:
    """A statement that matters.

    Attributes:
        area: Area of life.
        person: The subject of the fact.
        places: Indexes in `Year.said` of its statements: one, or two with different wording.
        questions: Asked on the last day only.
        until: Day on which another fact replaced this one; infinite if none did.
    """

    area: str
    person: str
    places: tuple[int, ...]
    questions: tuple[str, ...]
    until: float


@dataclass(frozen=True, slots=True)
class SimulatedSearch:
    """A search for a fact during the year, with the fact's index in `Year.facts`.

    The query is a statement of the fact, mostly in different words than the original statement.
    """

    day: float
    query: str
    fact: int


@dataclass(frozen=True)
class Year:
    """A simulated year.

    Attributes:
        seed: Seed that generated it.
        days: Length in days.
        said: Statements in chronological order.
        facts: Facts stated in the year.
        asked: Searches in chronological order.
    """

    seed: int
    days: int
    said: tuple[SimulatedStatement, ...]
    facts: tuple[SimulatedFact, ...]
    asked: tuple[SimulatedSearch, ...]

    @property
    def current(self) -> list[SimulatedFact]:
        """Facts that are still valid on the last day."""
        return [fact for fact in self.facts if np.isinf(fact.until)]

    @property
    def questions(self) -> list[tuple[SimulatedFact, str]]:
        """Questions of the last day, each about a fact that is still valid."""
        return [(fact, question) for fact in self.current for question in fact.questions]


@dataclass
class _DraftFact:
    """A fact under construction: its wording, the days of its statements, and the end of its validity."""

    topic: Topic
    person: str
    value: str
    days: list[float]
    until: float


def generate_year(memories: int, days: int = DAYS, seed: int = SEED) -> Year:
    """Generate a year with this many memories.

    Args:
        memories: Number of memories, at least 50; a share of `IMPORTANT_SHARE` of them matters.
        days: Length of the year, at least 28.
        seed: Seed of the random number generator.
    """
    chance = np.random.default_rng(seed)
    drafts = _generate_facts(chance, round(memories * IMPORTANT_SHARE), days)
    people = sorted({draft.person for draft in drafts})
    statements = [
        (SimulatedStatement(day, draft.person, _statement(chance, draft, place), number))
        for number, draft in enumerate(drafts)
        for place, day in enumerate(draft.days)
    ]
    statements += _chatter(chance, memories - len(statements), days, people)
    statements.sort(key=lambda statement: statement.day)
    places: list[list[int]] = [[] for _ in drafts]
    for place, statement in enumerate(statements):
        if statement.fact is not None:
            places[statement.fact].append(place)
    facts = [
        SimulatedFact(draft.topic.area, draft.person, tuple(indexes), tuple(_questions(draft)), draft.until)
        for draft, indexes in zip(drafts, places, strict=True)
    ]
    return Year(seed, days, tuple(statements), tuple(facts), tuple(_generate_searches(chance, drafts, days)))


def _generate_facts(chance: Chance, statements: int, days: int) -> list[_DraftFact]:
    """Generate facts with this many statements in total, from as few people as possible."""
    drafts: list[_DraftFact] = []
    remaining = statements
    for person in chance.permutation(PEOPLE).tolist():
        for number in chance.permutation(len(TOPICS)).tolist():
            if remaining <= 0:
                return drafts
            topic = TOPICS[number]
            values = chance.permutation(topic.values).tolist()
            day = float(chance.uniform(0, days - 1))
            first = _DraftFact(topic, person, values[0], [day], np.inf)
            drafts.append(first)
            remaining -= 1
            if topic.changes and remaining > 0 and chance.random() < CHANGED_SHARE:
                first.until = float(chance.uniform(day, days))
                drafts.append(_DraftFact(topic, person, values[1], [first.until], np.inf))
                remaining -= 1
            elif remaining > 0 and chance.random() < RESTATED_SHARE:
                first.days.append(float(chance.uniform(day, days)))
                remaining -= 1
    return drafts


def _questions(told: _DraftFact) -> Iterator[str]:
    return (template.format(who=told.person) for template in told.topic.asked)


def _statement(chance: Chance, told: _DraftFact, place: int) -> str:
    """Format the fact's statement; a restatement uses the next template."""
    templates = told.topic.said
    template = (
        templates[place % len(templates)] if len(told.days) > 1 else templates[int(chance.integers(len(templates)))]
    )
    return _sentence(template.format(x=told.value))


def _chatter(chance: Chance, count: int, days: int, people: list[str]) -> list[SimulatedStatement]:
    chatter: list[SimulatedStatement] = []
    for day in np.sort(chance.uniform(0, days, count)).tolist():
        if chatter and chance.random() < REPEATED_SHARE:
            text = chatter[int(chance.integers(len(chatter)))].text
        else:
            fillings = {name: _pick_one(chance, words) for name, words in FILLINGS.items()}
            text = _sentence(_pick_one(chance, CHATTER).format(**fillings))
        chatter.append(
            SimulatedStatement(day, people[(int(day) * 7) % len(people)], text)
        )  # each day, a different person talks
    return chatter


def _generate_searches(chance: Chance, told: list[_DraftFact], days: int) -> list[SimulatedSearch]:
    """Generate searches for facts while these are valid; some facts are never searched for, most others rarely."""
    asked_about = chance.permutation(len(told))[round(len(told) * NEVER_ASKED_SHARE) :]
    weights = 1 / np.arange(1, len(asked_about) + 1)
    times = round(len(told) * ASKED_TIMES * days / DAYS)
    searches = []
    for number in chance.choice(asked_about, times, p=weights / weights.sum()).tolist():
        draft = told[number]
        day = float(chance.uniform(draft.days[0], min(draft.until, days)))
        searches.append(
            SimulatedSearch(day, _sentence(_pick_one(chance, draft.topic.said).format(x=draft.value)), number)
        )
    return sorted(searches, key=lambda search: search.day)


def _pick_one(chance: Chance, among: Any) -> str:
    return str(among[int(chance.integers(len(among)))])


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
