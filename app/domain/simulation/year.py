"""Generate a simulated year: who says what on which day, which statements matter, and which questions follow.

Each seed always produces the same year. Only this module knows which statements matter; the service receives plain
texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

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
"""Mean number of searches per fact and year, Zipf-distributed: a few facts often, most hardly ever."""
REPEATED_SHARE: Final = 0.1
"""Share of the chatter that repeats earlier chatter verbatim."""


@dataclass(frozen=True, slots=True)
class SimulatedStatement:
    """A statement.

    Attributes:
        day: Days since the start of the year.
        person: The speaker, who talks about themselves.
        text: The statement.
        fact: Index in `Year.facts`; None for chatter.
    """

    day: float
    person: str
    text: str
    fact: int | None = None


@dataclass(frozen=True, slots=True)
class SimulatedFact:
    """A statement that matters.

    Attributes:
        area: Area of life.
        person: The person it is about.
        places: Indexes in `Year.said` of its statements: one, or two with different wording.
        questions: Asked on the last day only.
        until: Day on which another fact replaced it; infinite if none did.
    """

    area: str
    person: str
    places: tuple[int, ...]
    questions: tuple[str, ...]
    until: float


@dataclass(frozen=True, slots=True)
class SimulatedSearch:
    """A search by which a conversation returns to a fact, with the fact's index in `Year.facts`.

    Its wording mostly differs from the original statement's.
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
        memories: At least 50, of which `IMPORTANT_SHARE` matter.
        days: Length of the year, at least 28.
        seed: Selects the year.
    """
    chance = np.random.default_rng(seed)
    told = _generate_facts(chance, round(memories * IMPORTANT_SHARE), days)
    people = sorted({each.person for each in told})
    said = [
        (SimulatedStatement(day, each.person, _statement(chance, each, place), number))
        for number, each in enumerate(told)
        for place, day in enumerate(each.days)
    ]
    said += _chatter(chance, memories - len(said), days, people)
    said.sort(key=lambda one: one.day)
    places: list[list[int]] = [[] for _ in told]
    for place, one in enumerate(said):
        if one.fact is not None:
            places[one.fact].append(place)
    facts = [
        SimulatedFact(each.topic.area, each.person, tuple(found), tuple(_questions(each)), each.until)
        for each, found in zip(told, places, strict=True)
    ]
    return Year(seed, days, tuple(said), tuple(facts), tuple(_generate_searches(chance, told, days)))


def _generate_facts(chance: Chance, statements: int, days: int) -> list[_DraftFact]:
    """Generate facts with this many statements in total, from as few people as possible."""
    told: list[_DraftFact] = []
    left = statements
    for person in chance.permutation(PEOPLE).tolist():
        for number in chance.permutation(len(TOPICS)).tolist():
            if left <= 0:
                return told
            topic = TOPICS[number]
            values = chance.permutation(topic.values).tolist()
            day = float(chance.uniform(0, days - 1))
            first = _DraftFact(topic, person, values[0], [day], np.inf)
            told.append(first)
            left -= 1
            if topic.changes and left > 0 and chance.random() < CHANGED_SHARE:
                first.until = float(chance.uniform(day, days))
                told.append(_DraftFact(topic, person, values[1], [first.until], np.inf))
                left -= 1
            elif left > 0 and chance.random() < RESTATED_SHARE:
                first.days.append(float(chance.uniform(day, days)))
                left -= 1
    return told


def _questions(told: _DraftFact) -> Iterator[str]:
    return (way.format(who=told.person) for way in told.topic.asked)


def _statement(chance: Chance, told: _DraftFact, place: int) -> str:
    """Format the fact's statement; a restatement uses the next template."""
    ways = told.topic.said
    way = ways[place % len(ways)] if len(told.days) > 1 else ways[int(chance.integers(len(ways)))]
    return _sentence(way.format(x=told.value))


def _chatter(chance: Chance, count: int, days: int, people: list[str]) -> list[SimulatedStatement]:
    talk: list[SimulatedStatement] = []
    for day in np.sort(chance.uniform(0, days, count)).tolist():
        if talk and chance.random() < REPEATED_SHARE:
            text = talk[int(chance.integers(len(talk)))].text
        else:
            fillings = {name: _pick_one(chance, words) for name, words in FILLINGS.items()}
            text = _sentence(_pick_one(chance, CHATTER).format(**fillings))
        talk.append(
            SimulatedStatement(day, people[(int(day) * 7) % len(people)], text)
        )  # each day, a different person talks
    return talk


def _generate_searches(chance: Chance, told: list[_DraftFact], days: int) -> list[SimulatedSearch]:
    """Generate searches for facts while they are valid; some facts are never asked about, and most rarely."""
    asked_about = chance.permutation(len(told))[round(len(told) * NEVER_ASKED_SHARE) :]
    weights = 1 / np.arange(1, len(asked_about) + 1)
    times = round(len(told) * ASKED_TIMES * days / DAYS)
    asked = []
    for number in chance.choice(asked_about, times, p=weights / weights.sum()).tolist():
        each = told[number]
        day = float(chance.uniform(each.days[0], min(each.until, days)))
        asked.append(SimulatedSearch(day, _sentence(_pick_one(chance, each.topic.said).format(x=each.value)), number))
    return sorted(asked, key=lambda one: one.day)


def _pick_one(chance: Chance, among: Any) -> str:
    return str(among[int(chance.integers(len(among)))])


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
