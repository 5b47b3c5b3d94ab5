"""Validate a model's summary: it must cover exactly the given memories, fit the length limit and be supported by them.

The checks use surface form only. Every name, number, date and link must occur in a source, or be a speaker's name or a
day near the time of a statement; most words must come from the sources; negations, and the people that numbers are
attributed to, must match a source; and the summary must retain most of the facts of the extractive summary. A false
refusal costs only the better wording: the extractive summary is used instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import Final

import msgspec

from app.domain.consolidation import prompt as prompting
from app.domain.consolidation.extractive_summary import KEY_POINTS_MAX, length_limit
from app.domain.consolidation.facts import Facts, denies, facts, numbers, stems
from app.domain.consolidation.group_types import Form, Source, Summary
from app.domain.consolidation.parameters import Level
from app.domain.consolidation.rendering import day
from app.domain.consolidation.sentences import split_sentences
from app.domain.prompts import Prompt, Unusable, decode, handle
from app.domain.text.time_expressions import DAYS, MONTHS
from app.domain.text.words import STOP_WORDS

KEY_POINT_MAX_CHARACTERS: Final = 400
KEPT_OF_EXTRACT: Final = 0.7
"""Minimum share of the extractive summary's facts that a model's summary must retain."""
SUPPORTED_WORDS: Final = 0.6
"""Minimum share of a summary's words that must come from the sources; for single sentences, see `_SENTENCE_WORDS`."""

FAULTS: Final = {
    "not JSON": "it wasn't the JSON object that was asked for",
    "out of shape": "it didn't have exactly the fields that were asked for",
    "too large": "it was many times as long as it may be",
    "cut off": "it was cut off before its end",
    "wrong ids": "original_ids weren't exactly the ids of the memories, each once",
    "empty": "the summary or a key point was empty, or there was no key point",
    "too many points": "it had too many key points, or one that is no single short line",
    "too long": "the summary was longer than it may be",
    "leak": "it held a marker line, or an id outside of original_ids",
    "time span": "the time span didn't lie within the days of the memories",
    "a link": "it held a link, an address or a handle that no memory has",
    "a number": "it held a number that no memory has",
    "a date": "it held a date that no memory has",
    "a name": "it held a name, or a word with a capital letter, that no memory has",
    "other words": "much of it isn't in the memories' own words or language",
    "denial": "a sentence affirmed what a memory denies, or denied what a memory affirms",
    "wrong person": "it gave a number for a person for whom no memory gives it",
    "lossy": "it left out too many of the names, numbers, dates and links of the memories",
}
"""Reasons for refusing an answer, with the wording that the model receives on the next try."""

_SENTENCE_WORDS = 0.4
_LIKE = 0.6  # share of the shorter clause's words from which two clauses count as similar
_FEW_WORDS = 3
_MANY_WORDS = 12
_ANSWER_SPARE_CHARACTERS = 4_000
_SPAN: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?:\s*(?:/|to|–|-)\s*(\d{4}-\d\d-\d\d))?")
_MARK: Final = re.compile(r"EBB-[0-9a-f]{8,}", re.IGNORECASE)
_CLAUSE: Final = re.compile(r"[.;,!?](?=\s)|[。！？，；]|\n|\b(?:and|while|whereas|but)\b", re.IGNORECASE)  # noqa: RUF001
_AVOIDS: Final = re.compile(
    r"\b(?:avoid|refus|stop|quit|unable|lack|declin|reject|cancel|without|free of|instead|rather than|dislik|hat[ei]|"
    r"no longer|fail|miss|except|unlike|forb|allerg|cut out|gave up|against)",
    re.IGNORECASE,
)
_STARTER_WORDS = (
    "later then next afterwards since currently previously initially finally meanwhile eventually also although though "
    "however still today overall together earlier originally recently originally both another others despite thus "
    "therefore within throughout according given instead yet together once upon additionally per"
)
_STARTERS: Final = frozenset(_STARTER_WORDS.split())
_OF_TIME: Final = frozenset(stems(" ".join([*MONTHS, *DAYS, *_STARTERS, "day week month year"])))
_STARTING: Final = re.compile(r"(?:ly|ing|ed)$")
_DISTANCE: Final = re.compile(r"\b(\S+) days? (?:later|after|before|earlier)\b", re.IGNORECASE)
_NEAR_DAYS: Final = {"yesterday": -1, "last night": -1, "today": 0, "tonight": 0, "tomorrow": 1}


class _SummaryAnswer(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    summary: str
    key_points: tuple[str, ...]
    original_ids: tuple[str, ...]
    time_span: str


_decoder = msgspec.json.Decoder(_SummaryAnswer)


@dataclass(frozen=True)
class SourceFacts:
    """Facts and words of the sources that a summary is checked against."""

    sources: Sequence[Source]

    @cached_property
    def texts(self) -> list[str]:
        """Text of each source, with its speaker's name in front."""
        return [f"{source.speaker or ''}: {source.text}" for source in self.sources]

    @cached_property
    def facts(self) -> Facts:
        """Facts of all sources together."""
        return facts("\n".join(self.texts))

    @cached_property
    def stems(self) -> frozenset[str]:
        """Stems of all words in the sources, speakers' names included."""
        return frozenset(stems(" ".join(self.texts)))

    @cached_property
    def heads(self) -> frozenset[str]:
        """First five letters of `stems`, to match inflections that `facts.stem` doesn't know."""
        return frozenset(word[:5] for word in self.stems if len(word) >= 5)

    @cached_property
    def words(self) -> frozenset[str]:
        """All words of the sources, unstemmed, in lower case."""
        return frozenset(re.findall(r"[^\W_]+", " ".join(self.texts).lower()))

    @cached_property
    def numbers(self) -> frozenset[str]:
        """All numbers in the sources, the parts of compound numbers, and the parts of dates."""
        joined = " ".join(self.texts)
        return numbers(joined) | self.facts.numbers | frozenset(re.findall(r"\d+", joined)) | self.facts.dates

    @cached_property
    def dates(self) -> frozenset[str]:
        """Dates mentioned in the sources, days of the statements, and days they refer to ("yesterday", "on Friday")."""
        days = {near for source in self.sources for near in _mentioned_days(source)}
        return self.facts.dates | {part for each in days for part in _parts(each)}

    @cached_property
    def distances(self) -> frozenset[str]:
        """Differences in days between any two statements."""
        days = {day(source.said_at) for source in self.sources}
        return frozenset(str((one - other).days) for one in days for other in days if one > other)

    @cached_property
    def clauses(self) -> list[tuple[frozenset[str], bool]]:
        """Stems of each clause, and whether the clause contains a negation."""
        return [clause for source in self.sources for clause in _clauses(source.text)]

    @cached_property
    def numbers_by_source(self) -> list[tuple[frozenset[str], frozenset[str]]]:
        """Numbers in each source, with all its words (any of which may name a person)."""
        return [(numbers(text), frozenset(re.findall(r"[^\W_]+", text.lower()))) for text in self.texts]


def read(answer: str, sources: Sequence[Source], level: Level, mark: str, extracted: Summary, model: str) -> Summary:
    """Return the summary from a model's answer.

    Args:
        mark: The mark of the request, which the memories' handles derive from.
        extracted: The extractive summary of the sources, for comparison.

    Raises:
        Unusable: The answer failed a check; the message is a key of `FAULTS`.
    """
    most = length_limit(sources, level)
    if len(answer) > 4 * most + _ANSWER_SPARE_CHARACTERS + 40 * len(sources):
        raise Unusable("too large")
    decoded = decode(answer, _decoder, len(answer))
    text, points = decoded.summary.strip(), tuple(" ".join(point.split()) for point in decoded.key_points)
    source_facts = SourceFacts(sources)
    ids = [handle(source.memory_id, mark) for source in sources]
    if sorted(decoded.original_ids) != sorted(ids):
        raise Unusable("wrong ids")
    if not re.search(r"[^\W_]", text) or not points or not all(points):
        raise Unusable("empty")
    if len(points) > KEY_POINTS_MAX or any(len(point) > KEY_POINT_MAX_CHARACTERS for point in points):
        raise Unusable("too many points")
    if len(text) > max(most, len(extracted.text)):
        raise Unusable("too long")
    _check_span(decoded.time_span, sources)
    for part in (text, *points):
        if mark in part or _MARK.search(part) or any(each in part for each in ids):
            raise Unusable("leak")
        check_summary(part, source_facts)
    _check_loss(text, extracted.text, source_facts)
    return Summary(text, points, "llm", model)


def prompt(
    sources: Sequence[Source], form: Form, level: Level, extracted: Summary, model: str, fault: str | None = None
) -> Prompt[Summary]:
    """Return the prompt for a summary that passes the checks.

    Args:
        sources: One or more.
        extracted: Extractive summary of the sources; the model's summary must retain most of its facts.
        fault: Why the previous answer was refused, a key of `FAULTS`.
    """
    return Prompt(
        lambda mark: prompting.build_messages(sources, form, level, mark, FAULTS[fault] if fault else None),
        prompting.ANSWER_SCHEMA,
        prompting.answer_tokens_max(sources, level),
        lambda answer, mark: read(answer, sources, level, mark, extracted, model),
        truncated="cut off",
    )


def check_summary(text: str, known: SourceFacts) -> None:
    """Check a text against the sources.

    Raises:
        Unusable: The text states something that no source states.
    """
    stated = facts(_DISTANCE.sub(lambda found: "" if numbers(found[1]) <= known.distances else found[0], text))
    if not stated.links <= known.facts.links:
        raise Unusable("a link")
    if any(number not in known.numbers and not _has_same_parts(number, known) for number in stated.numbers):
        raise Unusable("a number")
    if not stated.dates <= known.dates | known.numbers:
        raise Unusable("a date")
    if not all(_is_known(name, known) for name in stated.names):
        raise Unusable("a name")
    if not all(_may_start(word, known) for word in stated.starts):
        raise Unusable("a name")
    _check_words(text, known, SUPPORTED_WORDS, _MANY_WORDS)
    for sentence in split_sentences(text):
        _check_words(sentence, known, _SENTENCE_WORDS, _FEW_WORDS)
        _check_denial(sentence, known)
        _check_persons(sentence, known)


def _check_span(span: str, sources: Sequence[Source]) -> None:
    """Refuse a time span that isn't one or two dates within the days of the sources."""
    days = [day(source.said_at) for source in sources]
    match = _SPAN.fullmatch(span.strip())
    try:
        first, last = (date.fromisoformat(part or match[1]) for part in match.groups()) if match else (None, None)
    except ValueError:
        first = last = None
    if first is None or last is None or not min(days) <= first <= last <= max(days):
        raise Unusable("time span")


def _check_words(text: str, known: SourceFacts, least: float, words_min: int) -> None:
    """Refuse texts of at least `words_min` words with too few words from the sources; words for time don't count."""
    words = {word for word in set(stems(text)) - _OF_TIME if not word.isdecimal()}
    supported = sum(word in known.stems or word[:5] in known.heads for word in words)
    if len(words) >= words_min and supported < least * len(words):
        raise Unusable("other words")


def _check_denial(sentence: str, known: SourceFacts) -> None:
    """Refuse a sentence that negates what all similar source clauses affirm, or affirms what they all negate."""
    for words, denied in _clauses(sentence):
        source_negations = [
            source_denied
            for source_words, source_denied in known.clauses
            if _is_alike(words, source_words, single=source_denied)
        ]
        if source_negations and denied not in source_negations:
            raise Unusable("denial")


def _is_alike(words: frozenset[str], said: frozenset[str], *, single: bool) -> bool:
    """Return whether two clauses share most words of the shorter one.

    At least two words must be shared. With `single`, one is enough if the source clause (`said`) has only one.
    """
    shared = len(words & said)
    return shared >= max(_LIKE * min(len(words), len(said)), 1 if single and len(said) == 1 else 2)


def _clauses(text: str) -> Iterator[tuple[frozenset[str], bool]]:
    """Yield the stems of each clause, and whether the clause contains a negation."""
    for clause in _CLAUSE.split(text):
        if words := frozenset(stems(clause)):
            yield words, _denies(clause)


def _check_persons(sentence: str, known: SourceFacts) -> None:
    """Refuse numbers in a clause that names people if no source with the number mentions any of them."""
    for clause in _CLAUSE.split(sentence):
        stated = facts(clause)
        persons = {name for name in stated.names | stated.starts if name not in STOP_WORDS}
        for number in stated.numbers if persons else ():
            source_words = [words for source_numbers, words in known.numbers_by_source if number in source_numbers]
            if source_words and not any(persons & words for words in source_words):
                raise Unusable("wrong person")


def _check_loss(text: str, extracted: str, known: SourceFacts) -> None:
    """Refuse a summary that lost too many of the facts that the extractive summary retained."""
    extracted_count, summary_count = _count_facts(extracted, known), _count_facts(text, known)
    if extracted_count >= _FEW_WORDS and summary_count < KEPT_OF_EXTRACT * extracted_count:
        raise Unusable("lossy")


def _count_facts(text: str, known: SourceFacts) -> int:
    """Count the sources' facts that a text contains."""
    stated, source_facts = facts(text), known.facts
    names = (stated.names | stated.starts) & source_facts.names
    return sum(
        map(len, (names, stated.numbers & source_facts.numbers, stated.links, stated.dates & source_facts.dates))
    )


def _is_known(name: str, known: SourceFacts) -> bool:
    """Return whether the sources contain every word of a name in any case or inflection.

    A weekday is also known if the sources refer to such a day, for example by "yesterday".
    """
    if name in DAYS:
        return name in known.words or any(part == name for part in known.dates)
    parts = re.findall(r"[^\W_]+", name)
    return all(
        part in known.words or part in STOP_WORDS or (stem := stems(part))[:1] == [] or stem[0] in known.stems
        for part in parts
    )


def _may_start(word: str, known: SourceFacts) -> bool:
    """Return whether a sentence may begin with this word: it occurs in the sources, or is unlikely to be a name."""
    return word in STOP_WORDS or word in _STARTERS or bool(_STARTING.search(word)) or _is_known(word, known)


def _has_same_parts(number: str, known: SourceFacts) -> bool:
    """Return whether a source has a number made of the same parts, such as 2:30 for "2.30"."""
    parts = re.findall(r"\d+", number)
    return len(parts) > 1 and any(re.findall(r"\d+", each) == parts for each in known.facts.numbers)


def _denies(sentence: str) -> bool:
    return denies(sentence) or _AVOIDS.search(sentence) is not None


def _mentioned_days(source: Source) -> Iterator[date]:
    """Yield the day of a statement and the days it refers to relatively."""
    spoken_on, lowered = day(source.said_at), source.text.lower()
    yield spoken_on
    for words, distance in _NEAR_DAYS.items():
        if words in lowered:
            yield spoken_on + timedelta(days=distance)
    for place, name in enumerate(DAYS):
        if name in lowered:
            ahead = (place - spoken_on.weekday()) % 7
            yield spoken_on + timedelta(days=ahead)
            yield spoken_on + timedelta(days=ahead - 7)


def _parts(each: date) -> tuple[str, ...]:
    return f"{each:%m-%d}", f"{each:%m}", f"{each:%Y}", DAYS[each.weekday()]
