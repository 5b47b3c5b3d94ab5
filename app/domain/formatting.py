"""Format numbers, sizes and times for people; the command line and the dashboard use the same functions."""

from __future__ import annotations

import math
import unicodedata
from datetime import UTC, datetime
from typing import Final

from app.domain.durations import DAY, HOUR, MINUTE, format_duration
from app.domain.rounding import round_for_people

__all__ = [
    "count_memories",
    "count_of",
    "format_axis",
    "format_bytes",
    "format_cost",
    "format_days_left",
    "format_duration",
    "format_latency",
    "format_minute",
    "format_number",
    "format_percent",
    "format_rate",
    "format_relative",
    "format_second",
    "format_span",
    "make_visible",
]

MISSING: Final = "–"
"""Shown in place of an unknown value."""
_KEPT: Final = "\n\t"
_STEERING: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\ufeff")
"""Direction overrides and invisible characters. Marks needed for Arabic and Hebrew are not included."""
_MONTH: Final = 30.44 * DAY
_YEAR: Final = 365.25 * DAY
_UNITS: Final = (
    # name, seconds, seconds from which the unit is used
    ("year", _YEAR, 2 * _YEAR),
    ("month", _MONTH, 90 * DAY),
    ("day", DAY, DAY),
    ("hour", HOUR, HOUR),
    ("minute", MINUTE, MINUTE),
    ("second", 1, 0),
)
_MINUTES_WITH_SECONDS: Final = 10
_SIZES: Final = ("KB", "MB", "GB", "TB")
_AXIS_UNITS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "K"))
_AXIS_EXACT_BELOW: Final = 100_000


def count_of(count: int, one: str, more: str) -> str:
    """Return a count with its noun: `1 memory`, `2,068 memories`."""
    return f"{count:,} {one if count == 1 else more}"


def count_memories(count: int) -> str:
    """Return a number of memories: `1 memory`, `2,068 memories`."""
    return count_of(count, "memory", "memories")


def format_number(value: float | None, digits: int = 3) -> str:
    """Format a number: `2,068`, `0.286`, `almost 0`; a dash for None."""
    if value is None:
        return MISSING
    return f"{int(value):,}" if float(value).is_integer() else round_for_people(value, digits)


def format_percent(share: float | None, decimals: int = 0) -> str:
    """Format a share from 0 to 1: `12%`, `0.4%`, `<0.1%`. Only 0 is shown as `0%`, and only 1 as `100%`.

    Args:
        share: The share.
        decimals: Decimals for numbers that are compared in a column; otherwise only shares below 10% have one.
    """
    if share is None:
        return MISSING
    percent = share * 100
    if 0 < percent < 0.1:
        return "<0.1%"
    if 99 < percent < 100:
        return f"{min(percent, 99.9):.1f}%"
    if not decimals and 0 < percent < 9.95 and not percent.is_integer():
        decimals = 1
    return f"{percent:.{decimals}f}%"


def format_bytes(size: float | None) -> str:
    """Format a size in decimal units: `512 bytes`, `5.6 KB`, `1.2 GB`."""
    if size is None:
        return MISSING
    if abs(size) < 1000:
        return count_of(round(size), "byte", "bytes")
    power = next((power for power in range(1, len(_SIZES)) if abs(size) < 999.95 * 1000**power), len(_SIZES))
    shown = size / 1000**power
    return f"{shown:.1f} {_SIZES[power - 1]}" if abs(shown) < 99.95 else f"{shown:,.0f} {_SIZES[power - 1]}"


def format_rate(per_second: float | None, beside: float = 0.0) -> str:
    """Format a rate in the unit that gives a readable number: `12/s`, `1.4/min`, `3/h`.

    Args:
        beside: A rate to compare it with: both have the unit of the larger one.
    """
    if per_second is None:
        return MISSING
    largest = max(abs(per_second), abs(beside))
    for unit, seconds in (("s", 1), ("min", MINUTE), ("h", HOUR)):
        if largest * seconds >= 1 or not largest:
            return f"{format_number(per_second * seconds, 2 if per_second * seconds < 100 else 3)}/{unit}"
    return "less than 1/h" if per_second else "0/h"


def format_latency(milliseconds: float | None) -> str:
    """Format a latency: `0.8 ms`, `34 ms`, `1.2 s`."""
    if milliseconds is None:
        return MISSING
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:,.1f} s"
    return f"{milliseconds:.1f} ms" if milliseconds < 9.95 else f"{milliseconds:.0f} ms"


def format_cost(cost: float | None) -> str:
    """Format an amount of money without its currency: `12.30`, `0.0042`, `less than 0.0001`."""
    if cost is None:
        return "unknown"
    if 0 < cost < 0.0001:
        return "less than 0.0001"
    return f"{cost:,.2f}" if cost == 0 or cost >= 1 else f"{cost:.4f}"


def format_span(seconds: float | None) -> str:
    """Format a measured duration: `0.4 s`, `45 s`, `1 min 15 s`, `2 h 5 min`; `never` for None."""
    if seconds is None:
        return "never"
    if 0 < seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), MINUTE)
    return f"{minutes} min {rest} s" if 0 < minutes < _MINUTES_WITH_SECONDS and rest else format_duration(seconds)


def format_relative(seconds_ago: float | None) -> str:
    """Format a time relative to now: `1 minute ago`, `in 3 days`, `just now`; `never` for None.

    Args:
        seconds_ago: Time since the moment; negative for a future one.
    """
    if seconds_ago is None:
        return "never"
    whole = round(abs(seconds_ago))
    if not whole:
        return "just now"
    place = next(index for index, (_, _, starts_at) in enumerate(_UNITS) if whole >= starts_at)
    name, seconds, _ = _UNITS[place]
    count = round(whole / seconds)
    if place and count * seconds >= _UNITS[place - 1][2]:  # 59.7 minutes are an hour
        name, count = _UNITS[place - 1][0], round(whole / _UNITS[place - 1][1])
    shown = count_of(count, name, f"{name}s")
    return f"{shown} ago" if seconds_ago > 0 else f"in {shown}"


def format_days_left(days: float) -> str:
    """Format the time until a deadline in whole days: `26 days left`, `less than 1 day left`, `1 day overdue`.

    Args:
        days: Days until the deadline; negative once it has passed.
    """
    whole = math.floor(days)
    if whole < 0:
        return f"{count_of(-whole, 'day', 'days')} overdue"
    return f"{count_of(whole, 'day', 'days')} left" if whole else "less than 1 day left"


def format_minute(moment: datetime | str | None) -> str:
    """Format a time, or an ISO 8601 timestamp, in UTC: `2026-11-22 08:51 UTC`; a dash for None."""
    return MISSING if moment is None else f"{_in_utc(moment):%Y-%m-%d %H:%M} UTC"


def format_second(moment: datetime | str | None) -> str:
    """Format a time like `format_minute`, with seconds: `2026-11-22 08:51:53 UTC`."""
    return MISSING if moment is None else f"{_in_utc(moment):%Y-%m-%d %H:%M:%S} UTC"


def _in_utc(moment: datetime | str) -> datetime:
    when = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return when.replace(tzinfo=when.tzinfo or UTC).astimezone(UTC)


def format_axis(value: float) -> str:
    """Format the label of a chart's axis: like `format_number`, with a unit from 100,000 on: `103K`, `1.2M`."""
    if value >= _AXIS_EXACT_BELOW:
        size, unit = next((size, unit) for size, unit in _AXIS_UNITS if value >= size)
        return f"{round_for_people(value / size)}{unit}"
    return format_number(round(value) if value >= 10 else value)


def make_visible(text: object) -> str:
    """Return a text with control characters replaced by code points such as ⟨U+202E⟩; empty for None."""
    if text is None:
        return ""
    return "".join(_show_sign(sign) for sign in str(text))


def _show_sign(sign: str) -> str:
    if sign in _KEPT or (sign not in _STEERING and unicodedata.category(sign) not in ("Cc", "Cs")):
        return sign
    return f"⟨U+{ord(sign):04X}⟩"
