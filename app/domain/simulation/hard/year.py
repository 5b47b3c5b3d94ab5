"""Generate a hard year: people talk with an assistant in several languages, and little of it matters.

Each seed always produces the same year. Facts are stated by the user, or by the assistant in the middle of a general
answer; turns of chatter precede and follow them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.domain.ingest.roles import Role
from app.domain.simulation.hard.topics import EXCHANGES, FILLINGS, HARD_TOPICS, THEMES, TURNS, Exchange, HardTopic
from app.domain.simulation.topics import PEOPLE
from app.domain.simulation.year import (
    ASKED_TIMES,
    CHANGED_SHARE,
    DAYS,
    IMPORTANT_SHARE,
    NEVER_ASKED_SHARE,
    REPEATED_SHARE,
    RESTATED_SHARE,
    SimulatedFact,
    SimulatedSearch,
    SimulatedStatement,
    Year,
)

Chance = np.random.Generator

FACTS_OF_A_PERSON: Final = 40
"""Approximate number of facts of each person; the number of people follows from it."""
ENGLISH: Final = "en"
ENGLISH_SHARE: Final = 0.7
"""Share of English among the exchanges of chatter; each person speaks English and some of the other languages."""
KINDS: Final[dict[str, float]] = {
    "phatic": 0.18,
    "passing": 0.27,
    "hearsay": 0.07,
    "request": 0.12,
    "knowledge": 0.13,
    "advice": 0.14,
    "code": 0.09,
}
"""Shares of the kinds of English chatter."""
PROMPTED_SHARE: Final = 0.3
"""Share of the user's facts that follow a question of the assistant."""
ACKNOWLEDGED_SHARE: Final = 0.6
"""Share of the user's facts that the assistant acknowledges."""
ADVISED_SHARE: Final = 0.4
"""Share of the acknowledgements that continue with general remarks."""
TERSE_SHARE: Final = 1 / 3
"""Share of the facts in the second, mostly terse wording."""
MISTYPED_SHARE: Final = 0.15
"""Share of the user's statements with typing errors, in languages with Latin letters."""
LISTED_SHARE: Final = 0.3
"""Share of the long answers that are written as a list."""
SENTENCES: Final = (2, 6)
"""Range of the number of sentences of a long answer, without opening and closing; the second number is excluded."""

_UNSPACED: Final = frozenset({"zh", "ja"})
_WITHOUT_LATIN: Final = frozenset({"zh", "ja", "ko"})
_OTHERS: Final = tuple(sorted({topic.language for topic in HARD_TOPICS} - {ENGLISH}))
_PLACEHOLDER: Final = re.compile(r"\{([a-z_]+?)(2?)\}")
_WORD: Final = re.compile(r"(?<![{`\w])[^\W\d_]{5,}(?![}`\w])")

Turn = tuple[str, Role, int | None]
"""Text, role, and index of the fact that it states."""


@dataclass
class _DraftFact:
    """A fact under construction: its value, its wordings with their days, and the end of its validity."""

    topic: HardTopic
    person: str
    value: str
    told: list[tuple[float, int]]
    until: float = np.inf


def generate_hard_year(memories: int, days: int = DAYS, seed: int = 1) -> Year:
    """Generate a hard year with this many memories.

    Args:
        memories: Number of memories, at least 50; a share of `IMPORTANT_SHARE` of them matters.
        days: Length of the year, at least 28.
        seed: Seed of the random number generator.
    """
    chance = np.random.default_rng(seed)
    wanted = round(memories * IMPORTANT_SHARE)
    count = min(max(round(wanted / FACTS_OF_A_PERSON), 1), len(PEOPLE))
    people: list[str] = chance.permutation(PEOPLE)[:count].tolist()
    calendar = _Calendar(chance, people, days)
    drafts = _generate_facts(chance, wanted, calendar)
    talks = _Talks(chance)
    exchanges = [
        (day, draft.person, draft.topic.language, talks.write_turns(draft, wording, number))
        for number, draft in enumerate(drafts)
        for day, wording in draft.told
    ]
    missing = memories - sum(len(turns) for _, _, _, turns in exchanges)
    while missing > 0:
        day = float(chance.uniform(0, days))
        person = calendar.talker(day)
        language, turns = talks.chat(calendar.languages[person])
        exchanges.append((day, person, language, turns[:missing]))
        missing -= len(turns)
    exchanges.sort(key=lambda exchange: exchange[0])
    statements = tuple(
        SimulatedStatement(day, person, text, fact, role, language)
        for day, person, language, turns in exchanges
        for text, role, fact in turns
    )
    places: list[list[int]] = [[] for _ in drafts]
    for place, statement in enumerate(statements):
        if statement.fact is not None:
            places[statement.fact].append(place)
    facts = tuple(
        SimulatedFact(
            draft.topic.area,
            draft.person,
            tuple(indexes),
            tuple(question.format(who=draft.person) for question in draft.topic.asked),
            draft.until,
        )
        for draft, indexes in zip(drafts, places, strict=True)
    )
    return Year(seed, days, statements, facts, tuple(_generate_searches(chance, drafts, days)))


class _Calendar:
    """Schedule of talkers: one person for each day, and the languages of each person."""

    def __init__(self, chance: Chance, people: Sequence[str], days: int) -> None:
        self.people, self.days = people, days
        self._chance = chance
        talkers = [people[number] for number in chance.integers(len(people), size=days).tolist()]
        talkers[: len(people)] = people
        self._talkers: list[str] = chance.permutation(talkers).tolist()
        order: list[str] = chance.permutation(_OTHERS).tolist()
        self.languages = {
            person: (ENGLISH, *order[number % len(order) :: len(people)]) for number, person in enumerate(people)
        }

    def talker(self, day: float) -> str:
        """Return the person who talks on a day."""
        return self._talkers[int(day)]

    def choose_day(self, person: str, after: float = -1) -> float:
        """Return a random time on one of the person's later days, or any random time after `after` if none is left."""
        days = [day for day, talker in enumerate(self._talkers) if talker == person and day > after]
        if not days:
            return float(self._chance.uniform(max(after, 0), self.days))
        return days[int(self._chance.integers(len(days)))] + float(self._chance.uniform(0, 1))


def _generate_facts(chance: Chance, statements: int, calendar: _Calendar) -> list[_DraftFact]:
    """Generate facts with this many statements in total; no person has a topic twice."""
    drafts: list[_DraftFact] = []
    facts_by_person = dict.fromkeys(calendar.people, 0)
    taken = set[tuple[str, HardTopic]]()
    remaining = statements
    for _ in calendar.people:
        for number in chance.permutation(len(HARD_TOPICS)).tolist():
            topic = HARD_TOPICS[number]
            speakers = [
                person
                for person in calendar.people
                if topic.language in calendar.languages[person] and (person, topic) not in taken
            ]
            if remaining <= 0 or not speakers:
                continue
            person = min(speakers, key=facts_by_person.__getitem__)
            taken.add((person, topic))
            facts = _generate_fact(chance, topic, person, calendar, remaining)
            drafts += facts
            facts_by_person[person] += len(facts)
            remaining -= sum(len(fact.told) for fact in facts)
    return drafts


def _generate_fact(
    chance: Chance, topic: HardTopic, person: str, calendar: _Calendar, remaining: int
) -> list[_DraftFact]:
    """Return a fact, and the fact that replaces it if it changes."""
    values = chance.permutation(topic.values).tolist()
    wording = _choose_wording(chance)
    first = _DraftFact(topic, person, values[0], [(calendar.choose_day(person), wording)])
    day = first.told[0][0]
    if remaining > 1 and topic.changes and chance.random() < CHANGED_SHARE:
        first.until = calendar.choose_day(person, day)
        return [first, _DraftFact(topic, person, values[1], [(first.until, _choose_wording(chance))])]
    if remaining > 1 and chance.random() < RESTATED_SHARE:
        first.told.append((calendar.choose_day(person, day), 1 - wording))
    return [first]


def _choose_wording(chance: Chance) -> int:
    return int(chance.random() < TERSE_SHARE)


def _generate_searches(chance: Chance, drafts: Sequence[_DraftFact], days: int) -> list[SimulatedSearch]:
    """Generate searches for facts while these are valid; some facts are never searched for, most others rarely."""
    asked_about = chance.permutation(len(drafts))[round(len(drafts) * NEVER_ASKED_SHARE) :]
    weights = 1 / np.arange(1, len(asked_about) + 1)
    times = round(len(drafts) * ASKED_TIMES * days / DAYS)
    searches = []
    for number in chance.choice(asked_about, times, p=weights / weights.sum()).tolist():
        draft = drafts[number]
        day = float(chance.uniform(draft.told[0][0], min(draft.until, days)))
        wording = draft.topic.said[int(chance.integers(len(draft.topic.said)))]
        searches.append(SimulatedSearch(day, wording.replace("{x}", draft.value), number))
    return sorted(searches, key=lambda search: search.day)


class _Talks:
    """Writes the turns of exchanges."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._chats: list[tuple[str, list[Turn]]] = []

    def write_turns(self, draft: _DraftFact, wording: int, fact: int) -> list[Turn]:
        """Return the turns of an exchange in which a fact is stated."""
        topic, sentences = draft.topic, THEMES[draft.topic.language]
        template = topic.said[wording]
        if topic.role == "assistant":
            consent = self._pick(sentences["agree"])
            text = template.replace("{x}", draft.value)
            return [(consent, "user", None), (self._embed(text, topic.language), "assistant", fact)]
        turns: list[Turn] = [(self._type(template, topic.language).replace("{x}", draft.value), "user", fact)]
        if self._chance.random() < PROMPTED_SHARE:
            turns.insert(0, (self._pick(sentences["prompt"]), "assistant", None))
        if self._chance.random() < ACKNOWLEDGED_SHARE:
            reply = self._pick(sentences["acknowledge"])
            if self._chance.random() < ADVISED_SHARE:
                reply = self._join([reply, *self._remarks(topic.language)], topic.language)
            turns.append((reply, "assistant", None))
        return turns

    def chat(self, languages: Sequence[str]) -> tuple[str, list[Turn]]:
        """Return the language and the turns of an exchange of chatter, which may repeat another one verbatim."""
        if self._chats and self._chance.random() < REPEATED_SHARE:
            return self._chats[int(self._chance.integers(len(self._chats)))]
        language = ENGLISH
        if len(languages) > 1 and self._chance.random() >= ENGLISH_SHARE:
            language = self._pick(languages[1:])
        kind = str(self._chance.choice(list(KINDS), p=list(KINDS.values()))) if language == ENGLISH else "mixed"
        among = _EXCHANGES_BY_KIND[language, kind]
        chat = language, list(self._write(among[int(self._chance.integers(len(among)))]))
        self._chats.append(chat)
        return chat

    def _write(self, exchange: Exchange) -> Iterator[Turn]:
        fillings: dict[str, str] = {}

        def fill(match: re.Match[str]) -> str:
            name, other = match.group(1), match.group(2)
            if match.group() not in fillings and name in FILLINGS:
                values = [value for value in FILLINGS[name] if not other or value != fillings.get(f"{{{name}}}")]
                fillings[match.group()] = self._pick(values)
            return fillings.get(match.group(), match.group())

        for number, template in enumerate(exchange.turns):
            if number % 2:
                text = (
                    self._answer(exchange.language, template[1:])
                    if template.startswith("@")
                    else _PLACEHOLDER.sub(fill, template)
                )
                yield text, "assistant", None
            else:
                yield self._type(_PLACEHOLDER.sub(fill, template), exchange.language), "user", None

    def _answer(self, language: str, theme: str) -> str:
        """Return a long answer with some of the theme's sentences."""
        sentences = THEMES[language]
        opening, closing = self._pick(sentences["opening"]), self._pick(sentences["closing"])
        remarks = self._sample(sentences[theme])
        if self._chance.random() < LISTED_SHARE:
            return "\n".join(filter(None, [opening, *(f"- {remark}" for remark in remarks), closing]))
        return self._join([opening, *remarks, closing], language)

    def _embed(self, text: str, language: str) -> str:
        """Return an answer of the assistant that contains this statement, before or after general remarks."""
        parts = [text, *self._remarks(language)]
        if self._chance.random() < 1 / 2:
            parts = [*parts[1:], text]
        return self._join([*parts, self._pick(THEMES[language]["closing"])], language)

    def _remarks(self, language: str) -> list[str]:
        themes = sorted(THEMES[language].keys() - TURNS)
        return self._sample(THEMES[language][self._pick(themes)])

    def _sample(self, sentences: Sequence[str]) -> list[str]:
        count = min(int(self._chance.integers(*SENTENCES)), len(sentences))
        return [sentences[number] for number in self._chance.permutation(len(sentences))[:count].tolist()]

    def _join(self, parts: Sequence[str], language: str) -> str:
        return ("" if language in _UNSPACED else " ").join(filter(None, parts))

    def _type(self, template: str, language: str) -> str:
        """Return what the user types, sometimes with two swapped letters and without capitals; values stay as they are.

        Code, which contains a line break or a backtick, is copied and has no typing errors.
        """
        if language in _WITHOUT_LATIN or "\n" in template or "`" in template:
            return template
        if self._chance.random() >= MISTYPED_SHARE:
            return template
        words = list(_WORD.finditer(template))
        if words:
            match = words[int(self._chance.integers(len(words)))]
            word = match.group()
            place = int(self._chance.integers(1, len(word) - 2))
            swapped = word[:place] + word[place + 1] + word[place] + word[place + 2 :]
            template = template[: match.start()] + swapped + template[match.end() :]
        return template[0].lower() + template[1:].replace("'", "")

    def _pick(self, among: Sequence[str]) -> str:
        return among[int(self._chance.integers(len(among)))]


_EXCHANGES_BY_KIND: Final[dict[tuple[str, str], list[Exchange]]] = {}
for _exchange in EXCHANGES:
    _EXCHANGES_BY_KIND.setdefault((_exchange.language, _exchange.kind), []).append(_exchange)
