"""Parse a text into clauses with the changes they state and the values that a later text may change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from app.domain.corrections import english_patterns
from app.domain.corrections.stems import stem
from app.domain.corrections.values import Value, find_values, letters, may_hold_values
from app.domain.text.words import STOP_WORDS

READ_CHARACTERS: Final = 1_500
"""Number of characters that are parsed: a long text states its corrections at the beginning."""
SLOT_WORDS: Final = 8
"""Maximum number of words between a value and the words that name its slot."""
GROUP_GAP: Final = 12
"""Maximum number of characters between values of one group: "Saturday 14 February, 22:00"."""

_WORD: Final = re.compile(r"[^\W_]+(?:['’](?!s\b)[^\W_]+)*")
_NAME: Final = re.compile(r"(?<=[\w,;:’')] )[A-Z][^\W\d_A-Z]+\b|^[A-Z][^\W\d_A-Z]+(?=['’]s\b)")
_LABEL: Final = re.compile(r"\b([a-z]{3,}) #?(\d{1,4})\b(?![:.%]\d|%)", re.IGNORECASE)
_THEIRS: Final = re.compile(
    r"\b(?:(?i:his|her|their|(?:my|our) (?:[^\W_]+ )?[^\W_]+['’]s)|[A-Z][a-z]+['’]s) ((?:[^\W_]+ ){0,2}[^\W_]+)"
)
_OURS: Final = re.compile(r"\b(?:my|our) ((?:[\w’']+ ){0,5}[^\W_]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Word:
    """A content word: its stem, its character offset in the clause, and its position among the clause's words."""

    stem: str
    start: int
    place: int


@dataclass(frozen=True, slots=True)
class SlotChange:
    """A new value for a slot: a property that has one value at a time, such as a dose or the day of a meeting.

    Attributes:
        words: Stems that name the slot.
        core: The stems of `words` between the verb and the value, such as "sertraline" in "the doctor has increased my
            sertraline to …"; all of `words` if there is none in between.
        values: The new value, as a group of adjacent values.
        replaced: The former values if the clause says "from … to …".
    """

    words: frozenset[str]
    core: frozenset[str]
    values: tuple[Value, ...]
    replaced: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Clause:
    """A sentence or part of a sentence.

    Attributes:
        words: Content words in order.
        values: Values in order.
        changes: Slots that have a new value.
        ended: Stems of things that the clause declares over.
        ended_values: Values that the clause declares over or negates.
        renamed: Stems of `ended` that are retracted names: "she isn't Saara".
        names: Names in lower case.
        labels: Number after a noun, by the noun's stem: "sprint 2".
        theirs: Stems after "his", "her", "their" or another possessive.
        ours: Stems after "my" and "our".
        is_open: True for a question or supposition, which states no fact.
    """

    text: str
    words: tuple[Word, ...]
    values: tuple[Value, ...]
    changes: tuple[SlotChange, ...] = ()
    ended: frozenset[str] = frozenset()
    ended_values: tuple[Value, ...] = ()
    renamed: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    labels: dict[str, str] = field(default_factory=dict)
    theirs: frozenset[str] = frozenset()
    ours: frozenset[str] = frozenset()
    is_open: bool = False

    @property
    def stems(self) -> frozenset[str]:
        """Stems of the content words."""
        return frozenset(word.stem for word in self.words)

    def words_before(self, start: int) -> int:
        """Return the number of words before a character offset."""
        return len(_WORD.findall(self.text[:start]))


@dataclass(frozen=True, slots=True)
class ParsedStatement:
    """A parsed text."""

    clauses: tuple[Clause, ...]

    @property
    def says_change(self) -> bool:
        """True if the text may correct an earlier statement."""
        return any(clause.changes or clause.ended or clause.ended_values for clause in self.clauses)

    @property
    def names(self) -> frozenset[str]:
        """Names in all clauses."""
        return frozenset(name for clause in self.clauses for name in clause.names)

    @property
    def ended_values(self) -> tuple[Value, ...]:
        """Values that any clause declares over or negates."""
        return tuple(value for clause in self.clauses for value in clause.ended_values)

    @property
    def spellings(self) -> frozenset[str]:
        """Lower-case content words of the clauses that state a change; a corrected statement shares some of them."""
        return self._spelled(beside=0)

    @property
    def spellings_beside(self) -> frozenset[str]:
        """`spellings`, extended by the words of the adjacent clauses."""
        return self._spelled(beside=1)

    def _spelled(self, beside: int) -> frozenset[str]:
        words: set[str] = set()
        for place, clause in enumerate(self.clauses):
            if clause.changes or clause.ended or clause.ended_values:
                for near in self.clauses[max(0, place - beside) : place + beside + 1]:
                    words |= {word.lower() for word in _WORD.findall(near.text)} - english_patterns.FILLERS
        return frozenset(word for word in words if not word.isdigit())


def may_correct(text: str) -> bool:
    """Return False if a text can't correct another; much faster than `parse_statement`."""
    bare = _bare(text)
    words = letters(bare)
    if not english_patterns.ENDS_WORDS.isdisjoint(words) and english_patterns.ENDS.search(bare):
        return True
    if "not" in words and any(
        english_patterns.contrasts(match["before"], match["over"])
        for match in english_patterns.CONTRAST_IN_LINE.finditer(bare)
    ):
        return True
    if not english_patterns.NOT_WORDS.isdisjoint(words) and english_patterns.NAMED_NO_MORE_IN_LINE.search(bare):
        return True
    return not english_patterns.CHANGES_WORDS.isdisjoint(words) and may_hold_values(bare, words)


def parse_statement(text: str) -> ParsedStatement:
    """Parse an English text, ignoring code and quotations."""
    parts = [part.strip() for part in english_patterns.SENTENCE_END.split(_bare(text)) if part and part.strip()]
    plain = [_plain(part) for part in parts]
    return ParsedStatement(tuple(_with_changes(plain, place) for place in range(len(plain))))


def _bare(text: str) -> str:
    """Return the parsed part of a text: its beginning without code and quotations."""
    return english_patterns.QUOTED.sub(" ", english_patterns.CODE.sub(" ", text[:READ_CHARACTERS]))


def _plain(text: str) -> Clause:
    """Return a clause with its words, values and names, but without the changes that it states."""
    values = tuple(find_values(text))
    is_open = (
        text.rstrip().endswith("?")
        or english_patterns.ASKS.search(text) is not None
        or english_patterns.SUPPOSED.search(text) is not None
    )
    theirs = {stem(word) for match in _THEIRS.finditer(text) for word in match[1].split()}
    ours = {stem(word) for match in _OURS.finditer(text) for word in match[1].split()}
    labels = {
        stem(match[1]): match[2]
        for match in _LABEL.finditer(text)
        if match[1].lower() not in english_patterns.NO_LABELS
    }
    names = {name for match in _NAME.finditer(text) if _is_name(name := match[0].lower())}
    return Clause(
        text,
        tuple(_content_words(text, values)),
        values,
        names=frozenset(names),
        labels=labels,
        theirs=frozenset(theirs),
        ours=frozenset(ours - theirs),
        is_open=is_open,
    )


def _is_name(word: str) -> bool:
    return not {word, word.removesuffix("s")} & (english_patterns.NO_NAMES | STOP_WORDS)


def _content_words(text: str, values: Iterable[Value]) -> Iterator[Word]:
    spans = [(value.start, value.end) for value in values]
    for place, match in enumerate(_WORD.finditer(text)):
        word = match[0].lower().replace("’", "'")
        if word in english_patterns.FILLERS or word in english_patterns.NEGATIONS or word.isdigit():
            continue
        if not spans or not any(start <= match.start() < end for start, end in spans):
            yield Word(stem(word), match.start(), place)


def _with_changes(clauses: list[Clause], place: int) -> Clause:
    """Return a clause with the changes that it states; the adjacent clauses supply missing slots and values."""
    clause = clauses[place]
    if clause.is_open:
        return clause
    ended, ended_values, renamed = _ended_values(clause)
    has_values = any(each.values for each in clauses[place : place + 2])
    changes = tuple(_changes(clauses, place)) if has_values else ()
    return replace(clause, changes=changes, ended=ended, ended_values=ended_values, renamed=renamed)


def _changes(clauses: list[Clause], place: int) -> Iterator[SlotChange]:
    """Yield the new values that the clause at this index states, with the words that name their slots."""
    clause = clauses[place]
    text = clause.text
    for match in english_patterns.CHANGED.finditer(text):
        after = [value for value in clause.values if value.start >= match.end()]
        new = next(
            (value for value in after if english_patterns.TO_VALUE.search(text[match.end() : value.start])), None
        )
        if new is not None and clause.words_before(new.start) - clause.words_before(match.start()) <= SLOT_WORDS:
            yield _change(clause, match.start(), match.end(), new)
        elif not after and place + 1 < len(clauses) and not clauses[place + 1].is_open:
            following = clauses[place + 1]
            if following.values and following.words_before(following.values[0].start) <= 1:
                words = _stems_near(clause, match.start(), match.start(), len(text))
                yield SlotChange(words, words, _group(following, following.values[0]))
    for match in (*english_patterns.SHIFTED.finditer(text), *english_patterns.NEW_ATTRIBUTE.finditer(text)):
        new = next((value for value in clause.values if value.start >= match.end()), None)
        if new is not None and clause.words_before(new.start) - clause.words_before(match.end()) <= SLOT_WORDS // 2:
            yield _change(clause, match.start(), match.end(), new)
    for value in clause.values:
        before, after_it = text[: value.start], text[value.end :]
        if english_patterns.NOW_BEFORE.search(before) or english_patterns.NOW_AFTER.match(after_it):
            change = _change(clause, value.start, value.start, value)
            if not change.words and place:
                words = clauses[place - 1].stems
                change = SlotChange(words, words, change.values)
            yield change


def _change(clause: Clause, start: int, end: int, new: Value) -> SlotChange:
    group = _group(clause, new)
    has_from = re.search(r"\bfrom\b", clause.text[end : new.start], re.IGNORECASE) is not None
    replaced = tuple(value for value in clause.values if end <= value.start < new.start) if has_from else ()
    words = _stems_near(clause, start, start, new.start)
    between = frozenset(word.stem for word in clause.words if end <= word.start < new.start)
    return SlotChange(words, between & words or words, group, replaced)


def _stems_near(clause: Clause, centre: int, start: int, end: int) -> frozenset[str]:
    """Return the stems within `SLOT_WORDS` words before `centre` or from `start` to `end`, without verbs of change."""
    place = clause.words_before(centre)
    return frozenset(
        word.stem
        for word in clause.words
        if (word.start < centre and place - word.place <= SLOT_WORDS) or start <= word.start < end
        if not english_patterns.CHANGED.fullmatch(clause.text[word.start :].split(" ", 1)[0].strip(".,:;!"))
    )


def _group(clause: Clause, first: Value) -> tuple[Value, ...]:
    """Return a value with the values that follow it at most `GROUP_GAP` characters apart."""
    group = [first]
    for value in clause.values:
        if value.start > group[-1].start and value.start - group[-1].end <= GROUP_GAP:
            group.append(value)
    return tuple(group)


def _ended_values(clause: Clause) -> tuple[frozenset[str], tuple[Value, ...], frozenset[str]]:
    """Return the things, values and retracted names that the clause declares over; things and names as stems."""
    text = clause.text
    words = letters(text)
    if (
        english_patterns.ENDS_WORDS.isdisjoint(words)
        and english_patterns.NOT_WORDS.isdisjoint(words)
        and not clause.values
    ):
        return frozenset(), (), frozenset()
    spans: list[tuple[int, int]] = []
    for match in english_patterns.ENDED_BEFORE.finditer(text):
        start, end = match.span("over")
        stop = re.search(
            r" (?:to|and|for|but|so|because|from|due|in|on|at|by|after|before|with|this|which|when) ",
            text[start:end] + " ",
        )
        spans.append((start, start + stop.start() if stop else end))
    for pattern in (english_patterns.ENDED_AFTER, english_patterns.ANY_MORE):
        spans += [match.span("over") for match in pattern.finditer(text)]
    spans += [
        match.span("over")
        for match in english_patterns.CONTRAST.finditer(text)
        if english_patterns.contrasts(match["before"], match["over"])
    ]
    renamed = [match.span("over") for match in english_patterns.NAMED_NO_MORE.finditer(text)]
    values = [value for value in clause.values if any(start <= value.start < end for start, end in spans)]
    values += [value for value in clause.values if _is_negated(clause, value)]
    return _within(text, [*spans, *renamed]), tuple(dict.fromkeys(values)), _within(text, renamed)


def _within(text: str, spans: Iterable[tuple[int, int]]) -> frozenset[str]:
    """Return the stems of the content words in these spans of a text."""
    words = (match[0].lower() for start, end in spans for match in _WORD.finditer(text[start:end]))
    return frozenset(stem(word) for word in words if word not in english_patterns.FILLERS and not word.isdigit())


def _is_negated(clause: Clause, value: Value) -> bool:
    """Return True if a day is negated, such as September in "he isn't coming in September"."""
    if value.kind not in {"date", "month", "weekday", "feast"}:
        return False
    negation = max(
        (match.end() for match in english_patterns.NEGATION.finditer(clause.text[: value.start])), default=-1
    )
    return negation >= 0 and clause.words_before(value.start) - clause.words_before(negation) <= SLOT_WORDS // 2
