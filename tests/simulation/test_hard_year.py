"""The hard year: many topics in words that the salience rules don't list, in dialogues and several languages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Final

import pytest

from app.domain.data_files import read_table
from app.domain.simulation.hard.topics import EXCHANGES, FILLINGS, HARD_TOPICS, THEMES, TURNS, HardTopic
from app.domain.simulation.hard.year import (
    ENGLISH,
    FACTS_OF_A_PERSON,
    KINDS,
    MISTYPED_SHARE,
    TERSE_SHARE,
    generate_hard_year,
)
from app.domain.simulation.topics import TOPICS
from app.domain.simulation.year import DAYS, IMPORTANT_SHARE, Year
from app.domain.text.words import STOP_WORDS, content_words

SALIENCE: Final = "app.domain.salience"
CALENDAR: Final = "when"
"""Days, months and hours, which plans can't avoid: the first of two lists that the topics may use."""
PRONOUNS: Final = "self"
"""Pronouns of the first person, which stop words cover in English alone: the second list."""
MOST_WITH_PRONOUNS: Final = 15
CJK: Final = {"zh", "ja"}
ROMANCE_AND_GERMAN: Final = {"de", "es", "fr", "it", "pt"}
CODE: Final = ("`", "\n", "//", "==", "re.compile(", "logging.", "/dev/")
AREAS: Final = {"fact", "preference", "plan", "decision", "constraint"}
_TOKEN: Final = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


@pytest.fixture(scope="module")
def year() -> Year:
    return generate_hard_year(3000, seed=3)


def statements(topic: HardTopic) -> list[str]:
    return [wording.replace("{x}", value) for wording, value in product(topic.said, topic.values)]


# --- Topics ---


class Lexicon:
    """Words and phrases of the salience rules' lists, by the list's name."""

    def __init__(self, lists: Mapping[str, str], without: set[str]) -> None:
        self.words: set[str] = set()
        self.prefixes: set[str] = set()
        self.phrases: dict[str, set[tuple[str, ...]]] = {}
        for name, listed in lists.items():
            if name not in without:
                for item in listed.split():
                    self._add(item.rpartition(":")[0] if ":" in item else item)

    def _add(self, item: str) -> None:
        first, *tail = item.split("_")
        for form in inflections(first[:-1]) if first.endswith("~") else {first}:
            if tail:
                if not STOP_WORDS.issuperset({form, *tail} - {"*"}):
                    self.phrases.setdefault(form, set()).add((form, *tail))
            elif form.endswith("…"):
                self.prefixes.add(form[:-1])
            else:
                self.words.add(form)

    def hits(self, text: str) -> set[str]:
        """Return the listed words, prefixes and phrases in a text that have a content word."""
        tokens = _TOKEN.findall(text.lower().replace("’", "'"))
        found = {word for word in tokens if word in self.words and word not in STOP_WORDS}
        found |= {word for word in tokens for prefix in self.prefixes if word.startswith(prefix)}
        for at, first in enumerate(tokens):
            for phrase in self.phrases.get(first, ()):
                following = tokens[at : at + len(phrase)]
                if len(following) == len(phrase) and all(
                    word in ("*", token) for word, token in zip(phrase, following, strict=True)
                ):
                    found.add(" ".join(phrase))
        return found


def inflections(word: str) -> Iterator[str]:
    stem = word.removesuffix("e")
    yield from (word, f"{word}s", f"{word}es", f"{stem}ed", f"{stem}ing", f"{word}{word[-1]}ed", f"{word}{word[-1]}ing")
    if word.endswith("y"):
        yield from (f"{word[:-1]}ies", f"{word[:-1]}ied")


def lists_of(name: str) -> dict[str, str]:
    table: dict[str, str] = read_table(SALIENCE, f"lexicon_{name}.toml")["features"]
    return table


ENGLISH_LISTS: Final = [lists_of(name) for name in ("emotion", "english", "lifestyle")]
JAPANESE_WORDS: Final = {
    item.split(":")[0]
    for name, listed in read_table(SALIENCE, "lexicon_other_languages.toml")["japanese"].items()
    if name != CALENDAR
    for item in listed.split()
}


def test_there_are_300_topics_none_of_them_of_the_old_year() -> None:
    assert len(HARD_TOPICS) >= 300
    assert len({topic.said for topic in HARD_TOPICS}) == len(HARD_TOPICS)
    old = {wording for topic in TOPICS for wording in topic.said}
    for topic in HARD_TOPICS:
        assert old.isdisjoint(topic.said)
        assert (len(set(topic.said)), len(set(topic.asked))) == (2, 2), topic
        assert len(set(topic.values)) >= 3, topic
        assert all("{x}" in wording for wording in topic.said), topic
        assert all("{who}" in question for question in topic.asked), topic


def test_no_content_word_of_an_english_topic_is_in_the_lists_of_the_salience_rules() -> None:
    lexicons = [Lexicon(lists, {CALENDAR}) for lists in ENGLISH_LISTS]
    for topic in HARD_TOPICS:
        if topic.language == ENGLISH:
            for text in statements(topic):
                assert not {hit for lexicon in lexicons for hit in lexicon.hits(text)}, text


def test_no_word_of_a_topic_in_another_language_is_in_the_lists_but_some_pronouns() -> None:
    lists = lists_of("other_languages")
    without, with_pronouns = Lexicon(lists, {CALENDAR, PRONOUNS}), Lexicon(lists, {CALENDAR})
    topics = [topic for topic in HARD_TOPICS if topic.language != ENGLISH]
    for text in (text for topic in topics for text in statements(topic)):
        assert not without.hits(text), text
    spoken = [topic for topic in topics if any(with_pronouns.hits(text) for text in statements(topic))]
    assert 0 < len(spoken) <= MOST_WITH_PRONOUNS
    for text in (text for topic in topics if topic.language == "ja" for text in statements(topic)):
        assert not any(word in text for word in JAPANESE_WORDS), text


def test_the_search_for_listed_words_finds_words_inflections_prefixes_and_phrases() -> None:
    lexicon = Lexicon({"a": "crying:0.5 marry~ put_*_down in_the", "b": "désespér…:1.3", "when": "monday"}, {"when"})
    assert lexicon.hits("Crying, she married on Monday, désespérée") == {"crying", "married", "désespérée"}
    assert lexicon.hits("put it down in the hall") == {"put * down"}
    assert not lexicon.hits("marriage")


def test_a_question_shares_at_most_half_of_its_content_words_with_what_answers_it() -> None:
    for topic in HARD_TOPICS:
        for question, text in product(topic.asked, statements(topic)):
            asked, told = units(question.replace("{who}", " "), topic), units(text, topic)
            assert len(asked & told) <= len(asked) / 2, (question, text)


def units(text: str, topic: HardTopic) -> set[str]:
    """Return the content words, or pairs of characters in languages without spaces."""
    if topic.language in CJK:
        letters = re.sub(r"\W", "", text)
        return {letters[at : at + 2] for at in range(len(letters) - 1)}
    return set(content_words(text))


def test_the_topics_have_the_documented_balance() -> None:
    count = len(HARD_TOPICS)
    areas = Counter(topic.area for topic in HARD_TOPICS)
    assert set(areas) == AREAS
    assert all(share >= 0.1 * count for share in areas.values()), areas
    languages = Counter(topic.language for topic in HARD_TOPICS)
    assert languages[ENGLISH] <= 0.7 * count
    assert all(languages[language] >= 15 for language in ROMANCE_AND_GERMAN), languages
    assert all(languages[language] >= 4 for language in ("zh", "ja", "ko")), languages
    assert 0.1 * count <= sum(topic.role == "assistant" for topic in HARD_TOPICS) <= 0.2 * count
    assert sum(topic.changes for topic in HARD_TOPICS) >= 0.05 * count
    assert sum(any(mark in text for mark in CODE) for topic in HARD_TOPICS for text in topic.said) >= 8, "code"


# --- Chatter ---


def test_each_template_of_chatter_refers_to_known_fillings_and_themes() -> None:
    for exchange in EXCHANGES:
        for number, turn in enumerate(exchange.turns):
            for name in re.findall(r"\{([a-z_]+?)2?\}", turn):
                assert name in FILLINGS, exchange
            if turn.startswith("@"):
                assert number % 2, exchange
                assert turn[1:] in THEMES[exchange.language].keys() - TURNS, exchange
    assert {exchange.kind for exchange in EXCHANGES if exchange.language == ENGLISH} == set(KINDS)
    assert sum(KINDS.values()) == pytest.approx(1)
    languages = {topic.language for topic in HARD_TOPICS}
    assert {exchange.language for exchange in EXCHANGES} == languages == set(THEMES)
    agreed = {topic.language for topic in HARD_TOPICS if topic.role == "assistant"}
    assert all("agree" in THEMES[language] for language in agreed)


# --- Years ---


def test_a_seed_makes_the_same_hard_year_again_and_another_one_another(year: Year) -> None:
    assert generate_hard_year(3000, seed=3) == year
    assert generate_hard_year(3000, seed=4).said != year.said


def test_a_tenth_matters_and_each_fact_is_stated_by_its_role(year: Year) -> None:
    assert len(year.said) == 3000
    places = [place for fact in year.facts for place in fact.places]
    assert sorted(places) == [place for place, one in enumerate(year.said) if one.fact is not None]
    assert len(places) == 3000 * IMPORTANT_SHARE
    people = {fact.person for fact in year.facts}
    assert len(people) == round(3000 * IMPORTANT_SHARE / FACTS_OF_A_PERSON)
    roles = Counter((one.role, one.fact is not None) for one in year.said)
    assert set(roles) == set(product(("user", "assistant"), (True, False)))
    assert 0.08 <= roles["assistant", True] / len(places) <= 0.22
    assert 0.3 <= roles["assistant", False] / (3000 - len(places)) <= 0.5
    assert {fact.area for fact in year.facts} == AREAS
    for fact in year.facts:
        assert all(year.said[place].person == fact.person for place in fact.places)


def test_people_speak_every_language_each_of_them_english_and_some_others(year: Year) -> None:
    spoken = {topic.language for topic in HARD_TOPICS}
    assert {one.language for one in year.said} == spoken
    assert {one.language for one in year.said if one.fact is not None} == spoken
    by_person: dict[str, set[str]] = {}
    for one in year.said:
        if one.fact is not None:
            by_person.setdefault(one.person, set()).add(one.language)
    assert all(ENGLISH in languages and len(languages) <= 3 for languages in by_person.values()), by_person


def test_a_person_has_one_day_of_talk_at_a_time_and_a_fact_lies_within_a_dialogue(year: Year) -> None:
    days = [one.day for one in year.said]
    assert days == sorted(days)
    assert 0 <= days[0] <= days[-1] < DAYS
    agreed = [place for place, one in enumerate(year.said) if one.fact is not None and one.role == "assistant"]
    assert agreed
    for place in agreed:
        consent = year.said[place - 1]
        assert (consent.role, consent.fact, consent.day) == ("user", None, year.said[place].day)
    told = [place for place, one in enumerate(year.said) if one.fact is not None and one.role == "user"]
    prompted = [place for place in told if year.said[place - 1].day == year.said[place].day]
    assert 0.2 <= len(prompted) / len(told) <= 0.4
    assert all(year.said[place - 1].role == "assistant" for place in prompted)


def test_an_agreed_plan_is_told_within_an_answer_and_a_value_never_has_a_typing_error(year: Year) -> None:
    by_questions = {
        tuple(question.replace("{who}", fact.person) for question in topic.asked): topic
        for fact in year.facts
        for topic in HARD_TOPICS
    }
    terse, mistyped, told = 0, 0, 0
    for one in year.said:
        if one.fact is None:
            continue
        topic = by_questions[year.facts[one.fact].questions]
        assert any(value in one.text for value in topic.values), one
        if topic.role == "assistant":
            assert any(text in one.text and len(text) < len(one.text) for text in statements(topic)), one
            continue
        told += 1
        second = {topic.said[1].replace("{x}", value) for value in topic.values}
        terse += one.text in second
        mistyped += one.text not in statements(topic)
    assert 0.7 * TERSE_SHARE <= terse / told <= 1.4 * TERSE_SHARE
    assert 0.5 * MISTYPED_SHARE <= mistyped / told <= 1.5 * MISTYPED_SHARE


def test_what_is_asked_in_the_hard_year_holds_then_and_the_last_questions_are_new(year: Year) -> None:
    for one in year.asked:
        fact = year.facts[one.fact]
        assert year.said[fact.places[0]].day <= one.day <= fact.until
        assert one.query not in fact.questions
    changed = [fact for fact in year.facts if fact.until < year.days]
    assert changed
    for fact in changed:
        [later] = [other for other in year.current if other.questions == fact.questions]
        assert year.said[later.places[0]].day == fact.until


@pytest.mark.parametrize("memories", [50, 300])
def test_a_short_hard_year_has_as_many_statements_as_wanted(memories: int) -> None:
    short = generate_hard_year(memories, 28, seed=1)
    assert len(short.said) == memories
    assert sum(one.fact is not None for one in short.said) == round(memories * IMPORTANT_SHARE)
    assert all(0 <= one.day < 28 for one in short.said)
