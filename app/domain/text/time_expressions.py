"""Find the time expressions of a query and convert them to time spans.

Expressions are English; numeric dates (2023-05-07) are recognised in any language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SEASONS: Final = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""First month of each season in the northern hemisphere."""
_UNITS: Final = {"day": 1, "week": 7, "month": 30, "year": 365}
_SMALL: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBERS: Final = dict(zip(_SMALL, range(1, 13), strict=True)) | {
    "a": 1,
    "an": 1,
    "the": 1,
    "a couple of": 2,
    "a few": 3,
    "several": 4,
}
_YEARS: Final = range(1900, 2100)
SPANS_MAX: Final = 64
"""Maximum number of spans per query."""

_MONTH: Final = "(?P<month>" + "|".join(f"{name[:3]}(?:{name[3:]})?" for name in MONTHS) + "|sept)"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)"
_DAY: Final = r"(?P<day>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?"
_WHICH: Final = r"(?P<which>last|past|this|next)\s+"
_IN: Final = r"(?:in|of|on|for|from|by|since|until|during|around|before|after|early|mid|late)\s+"
_SEASON: Final = f"(?P<season>{'|'.join(_SEASONS)})"
_COUNT: Final = rf"(?P<count>\d{{1,3}}|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
_UNIT: Final = rf"(?P<unit>{'|'.join(_UNITS)})s?"
_SHIFT: Final = rf"(?:{_COUNT}\s+{_UNIT}|(?:the\s+)?(?P<weekday>{'|'.join(DAYS)}))\s+(?P<side>before|after)\s+"
_DAY_LONG: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A half-open interval [start, end) of timezone-aware times."""

    start: datetime
    end: datetime


def find_time_spans(query: str, now: datetime, years: Iterable[int]) -> list[TimeSpan]:
    """Return the times that a query's expressions refer to, at most `SPANS_MAX`; empty if there are none.

    Args:
        now: Reference time for expressions such as "yesterday"; days start in its time zone.
        years: Years that a date without a year may refer to, each 1900 to 2099.
    """
    spans: list[TimeSpan] = []
    if now.year in _YEARS and _HINT.search(query):
        candidate_years = sorted(set(years).intersection(_YEARS))
        for pattern, read in _RULES:
            for match in pattern.finditer(query):
                spans += read(match, now, candidate_years)
            # Remove the matched expressions so that shorter patterns don't match parts of them.
            query = pattern.sub(" ; ", query)
    return spans[:SPANS_MAX]


def _dates(match: re.Match[str], now: datetime, years: Iterable[int]) -> Iterator[TimeSpan]:
    """Yield a month or day in its year or in each candidate year, shifted by phrases like "two weeks before"."""
    groups = match.groupdict()
    name = groups["month"].lower()
    month = (
        int(name)
        if name.isdecimal()
        else next(n for n, month_name in enumerate(MONTHS, 1) if month_name[:3] == name[:3])
    )
    for year in [int(groups["year"])] if groups.get("year") else years:
        start = _midnight(now, year, month)
        if not groups.get("day"):
            yield TimeSpan(start, _months_later(start, 1))
        elif (day := start + timedelta(days=int(groups["day"]) - 1)).month == month:
            yield _shift(day, groups)


def _shift(day: datetime, said: dict[str, str | None]) -> TimeSpan:
    side = said.get("side")
    if not side:
        return TimeSpan(day, day + _DAY_LONG)
    sign = -1 if side.lower() == "before" else 1
    if said["weekday"]:
        days_off = (DAYS.index(said["weekday"].lower()) - day.weekday()) * sign % 7 or 7
        return TimeSpan(day + sign * days_off * _DAY_LONG, day + (sign * days_off + 1) * _DAY_LONG)
    return _around(day, sign * _count(said["count"]), said["unit"])


def _ago(match: re.Match[str], now: datetime, _: Iterable[int]) -> Iterator[TimeSpan]:
    yield _around(_today(now), -_count(match["count"]), match["unit"])


def _around(day: datetime, count: int, unit: str | None) -> TimeSpan:
    """Return the day at this distance, extended by half a unit on either side because people count roughly.

    Args:
        day: Start of the day from which the distance is counted.
        count: Number of units; negative for the past.
        unit: A key of `_UNITS`; None for days.
    """
    length = _UNITS[(unit or "day").lower()]
    slack = timedelta(days=(length - 1) // 2)
    center = day + count * length * _DAY_LONG
    return TimeSpan(center - slack, center + slack + _DAY_LONG)


def _seasons(match: re.Match[str], now: datetime, years: Iterable[int]) -> Iterator[TimeSpan]:
    groups = match.groupdict()
    first = _SEASONS[groups["season"].lower()]
    if groups.get("which"):
        yield _choose_span([_season(now, now.year + n, first) for n in (-2, -1, 0, 1)], groups["which"], now)
    else:
        yield from (_season(now, year, first) for year in ([int(groups["year"])] if groups.get("year") else years))


def _season(now: datetime, year: int, first: int) -> TimeSpan:
    start = _midnight(now, year, first)
    return TimeSpan(start, _months_later(start, 3))


def _named_unit(match: re.Match[str], now: datetime, _: Iterable[int]) -> Iterator[TimeSpan]:
    """Yield a month, weekday, week or similar unit preceded by "last", "this" or "next"."""
    unit, today = match["what"].lower(), _today(now)
    monday = today - today.weekday() * _DAY_LONG
    if unit in DAYS:
        days = [monday + (7 * n + DAYS.index(unit)) * _DAY_LONG for n in (-2, -1, 0, 1, 2)]
        spans = [TimeSpan(day, day + _DAY_LONG) for day in days]
    elif unit in {"week", "weekend"}:
        first_weekday = 5 if unit == "weekend" else 0
        weeks = [monday + 7 * n * _DAY_LONG for n in (-2, -1, 0, 1, 2)]
        spans = [TimeSpan(week + first_weekday * _DAY_LONG, week + 7 * _DAY_LONG) for week in weeks]
    else:
        month = {"month": today.month, "year": 1}.get(unit) or MONTHS.index(unit) + 1
        step, length = (1 if unit == "month" else 12), (12 if unit == "year" else 1)
        starts = [_months_later(_midnight(now, today.year, month), step * n) for n in (-2, -1, 0, 1, 2)]
        spans = [TimeSpan(start, _months_later(start, length)) for start in starts]
    yield _choose_span(spans, match["which"], now)


def _choose_span(around: list[TimeSpan], which: str, now: datetime) -> TimeSpan:
    """Return the span that "last", "past", "next" or "this" refers to.

    "last" and "past": the latest that has ended; "next": the first that starts later; "this": the first not yet ended.
    """
    if which.lower() in {"last", "past"}:
        return max((span for span in around if span.end <= now), key=lambda span: span.end)
    if which.lower() == "next":
        return min((span for span in around if span.start > now), key=lambda span: span.start)
    return min((span for span in around if span.end > now), key=lambda span: span.end)


def _year(match: re.Match[str], now: datetime, _: Iterable[int]) -> Iterator[TimeSpan]:
    start = _midnight(now, int(match["year"]), 1)
    yield TimeSpan(start, _months_later(start, 12))


def _near_days(match: re.Match[str], now: datetime, _: Iterable[int]) -> Iterator[TimeSpan]:
    day = _today(now) + {"yesterday": -1, "last night": -1, "tomorrow": 1}.get(match[0].lower(), 0) * _DAY_LONG
    yield TimeSpan(day, day + _DAY_LONG)


def _count(word: str | None) -> int:
    number = (word or "a").lower()
    return int(number) if number.isdecimal() else _NUMBERS[number]


def _today(now: datetime) -> datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def _midnight(now: datetime, year: int, month: int) -> datetime:
    return _today(now).replace(year=year, month=month, day=1)


def _months_later(start: datetime, months: int) -> datetime:
    """Return the first day of the month this many months later."""
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    return start.replace(year=year, month=month + 1)


def _rule(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])", re.IGNORECASE)


_HINT: Final = _rule(
    rf"(?:19|20)\d\d(?:-\d\d?){{0,2}}|{_MONTH}|{_SEASON}|ago|last|past|this|next|yesterday|today|tonight|tomorrow"
)
_Read = Callable[[re.Match[str], datetime, Iterable[int]], Iterable[TimeSpan]]
_RULES: Final[list[tuple[re.Pattern[str], _Read]]] = [
    (_rule(rf"(?:{_SHIFT})?{_YEAR}-(?P<month>0[1-9]|1[0-2])(?:-(?P<day>0[1-9]|[12]\d|3[01]))?"), _dates),
    (_rule(rf"(?:{_SHIFT})?(?:the\s+)?{_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+{_YEAR})?"), _dates),
    (_rule(rf"(?:{_SHIFT})?{_MONTH}\s+(?:the\s+)?{_DAY}(?:,?\s+{_YEAR})?"), _dates),
    (_rule(rf"{_MONTH},?\s+(?:of\s+)?{_YEAR}"), _dates),
    (_rule(rf"{_WHICH}(?P<what>week|weekend|month|year|{'|'.join((*DAYS, *MONTHS))})"), _named_unit),
    (_rule(rf"{_IN}(?:the\s+)?{_MONTH}"), _dates),  # "may" and "march" alone usually aren't months
    (_rule(rf"{_SEASON}(?:\s+of)?,?\s+{_YEAR}"), _seasons),
    (_rule(rf"(?:{_WHICH}|{_IN}(?:the\s+)?){_SEASON}"), _seasons),
    (_rule(rf"{_COUNT}\s+{_UNIT}\s+ago"), _ago),
    (_rule(r"last night|yesterday|today|tonight|tomorrow"), _near_days),
    (_rule(rf"(?:{_IN}|year\s+){_YEAR}"), _year),
]
