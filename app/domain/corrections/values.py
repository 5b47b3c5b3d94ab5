"""Find values in English text: days, times of day, amounts of money, percentages and counts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from app.domain.corrections.english_patterns import NO_UNITS, SMALL_NUMBERS, VALUES_WORDS
from app.domain.corrections.stems import stem
from app.domain.text.words import STOP_WORDS

Kind = Literal["date", "month", "weekday", "feast", "clock", "money", "share", "number"]

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
_HOUR: Final = rf"(?P<hour>\d{{1,2}}|{'|'.join(SMALL_NUMBERS[1:])})"
_DIGITS: Final = r"\d[\d,]*(?:\.\d+)?"
_NUMBER: Final = rf"{_DIGITS}|{'|'.join(SMALL_NUMBERS)}"


class Value(NamedTuple):
    """A value in a text, from offset `start` to `end`.

    Attributes:
        amount: The value to compare. For a date or month: the numbers of month and day, 0 if not stated. For a time of
            day: minutes after noon or midnight.
        unit: For a number, the stem of the counted noun; empty for other kinds.
    """

    kind: Kind
    amount: tuple[int, int] | int | str
    unit: str
    start: int
    end: int


_FORMS: Final[tuple[tuple[Kind, str], ...]] = (
    ("date", r"\b\d{4}-(?P<month>\d\d)-(?P<day>\d\d)\b"),
    ("date", rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<month>{_MONTH})\b(?:,? \d{{4}})?"),
    ("date", rf"\b(?P<month>{_MONTH})\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b(?![:%.]\d)(?:,? \d{{4}})?"),
    ("money", rf"[$€£] ?(?P<amount>{_DIGITS}(?: ?[km]\b)?)"),
    ("money", rf"\b(?P<amount>{_DIGITS}) ?(?:dollars|euros?|pounds|quid|bucks|eur|gbp|usd)\b"),
    ("share", rf"\b(?P<amount>{_DIGITS}) ?(?:%|percent\b|per cent\b)"),
    ("clock", r"\b(?P<hour>\d{1,2})[:.](?P<minute>[0-5]\d)\b(?: ?[ap]m\b)?"),
    ("clock", r"\b(?P<hour>\d{1,2}) ?[ap]\.?m\b"),
    (
        "clock",
        rf"\b(?:at|to|until|till|from) {_HOUR}(?= o'clock\b|\s*[.,;:!?)]|\s*$)",
    ),
    ("clock", r"\bat (?P<hour>\d{1,2})\b(?! ?[%\w])"),
    ("date", r"\bthe (?P<day>\d{1,2})(?:st|nd|rd|th)\b"),
    (
        "weekday",
        r"\b(?P<amount>mon|tue|wed|thu|fri|sat|sun)(?:s|nes|rs|ur)?days?\b|\b(?P<short>tue|tues|wed|thu|thur|thurs|fri)\b",
    ),
    ("weekday", r"(?-i:\b(?P<amount>Mon|Sat|Sun|sat|sun)\b)(?= \d)"),
    ("feast", r"\b(?P<amount>easter|christmas|whitsun|thanksgiving|halloween|new year|labou?r (?:day|weekend))\b"),
    (
        "month",
        rf"\b(?:in|to|until|till|from|by|of|next|this|early|late|mid|for|the|so|since) (?P<month>{_MONTH})\b(?! \d)",
    ),
    ("month", r"(?-i:\b(?P<month>January|February|April|June|July|August|September|October|November|December)\b)"),
    (
        "number",
        rf"\b(?P<amount>{_NUMBER}) (?:(?:more|new|different|full|extra|additional) )?(?P<unit>[a-z]{{2,}})\b",
    ),
)
_WEEKDAY: Final = re.compile("(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*days?")
_PATTERNS: Final = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _FORMS)


_LETTERS: Final = re.compile("[a-z]+")
_DIGIT: Final = re.compile(r"\d")
_PLAIN: Final = str.maketrans({"\u017f": "s", "\u0130": "i", "\u0131": "i"})
"""Letters that match s or i when case is ignored."""


def letters(text: str) -> frozenset[str]:
    """Return the runs of ASCII letters in a text, in lower case: `isn` and `t` for "isn't"."""
    return frozenset(_LETTERS.findall((text if text.isascii() else text.translate(_PLAIN)).lower()))


def may_hold_values(text: str, said: frozenset[str]) -> bool:
    """Return False if a text with these `letters` can't contain a value; much faster than `find_values`."""
    return not VALUES_WORDS.isdisjoint(said) or _DIGIT.search(text) is not None or any(map(_WEEKDAY.fullmatch, said))


def find_values(text: str) -> list[Value]:
    """Return the values of a text in order, without overlaps."""
    if not may_hold_values(text, letters(text)):
        return []
    values: list[Value] = []
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            if all(match.end() <= value.start or value.end <= match.start() for value in values):
                values.extend(_read(kind, match))
    return sorted(values, key=lambda value: value.start)


def _read(kind: Kind, match: re.Match[str]) -> Iterator[Value]:
    """Yield the value of a match, unless it is a number before a word that isn't a unit."""
    groups = {name: group.lower() for name, group in match.groupdict().items() if group}
    unit = ""
    amount: tuple[int, int] | int | str
    if kind in {"date", "month"}:
        amount = (_month(groups.get("month", "")), int(groups.get("day", 0)))
    elif kind == "clock":
        amount = _count(groups["hour"]) % 12 * 60 + int(groups.get("minute", 0))
    elif kind == "weekday":
        amount = (groups.get("amount") or groups["short"])[:3]
    elif kind == "number":
        if groups["unit"] in STOP_WORDS or groups["unit"] in NO_UNITS:
            return
        unit, amount = stem(groups["unit"]), str(_count(groups["amount"]))
    else:
        amount = groups["amount"].replace(",", "").replace(" ", "")
    yield Value(kind, amount, unit, match.start(), match.end())


def _month(name: str) -> int:
    if name.isdigit():
        return int(name)
    return _MONTHS.index(name[:3]) + 1 if name else 0


def _count(said: str) -> int:
    return SMALL_NUMBERS.index(said) if said in SMALL_NUMBERS else int(float(said.replace(",", "")))


_DAYS: Final = frozenset({"date", "month", "feast"})


def are_comparable(one: Value, other: Value) -> bool:
    """Return True if two values can be compared: two dates, months or feasts, or two of one kind and unit."""
    if one.kind in _DAYS and other.kind in _DAYS:
        return True
    return one.kind == other.kind and one.unit == other.unit


def differ(one: Value, other: Value) -> bool:
    """Return True if two comparable values exclude each other: 14 May and June, but not 14 May and May."""
    if not (isinstance(one.amount, tuple) and isinstance(other.amount, tuple)):
        return one.amount != other.amount
    pairs = [(a, b) for a, b in zip(one.amount, other.amount, strict=True) if a and b]
    return any(a != b for a, b in pairs)
