"""Format durations for people."""

from __future__ import annotations

from typing import Final

MINUTE: Final = 60
HOUR: Final = 3600
DAY: Final = 86_400
_DAYS_WITH_HOURS: Final = 10


def format_duration(seconds: float) -> str:
    """Format a duration in one or two units: `45 s`, `3 min`, `2 h 5 min`, `12 days`."""
    whole = round(seconds)
    if whole < HOUR:
        return f"{whole} s" if whole < MINUTE else f"{whole // MINUTE} min"
    if whole < DAY:
        hours, rest = divmod(whole, HOUR)
        return f"{hours} h {rest // MINUTE} min" if rest >= MINUTE else f"{hours} h"
    days, rest = divmod(whole, DAY)
    shown = f"{days} day" if days == 1 else f"{days:,} days"
    return f"{shown} {rest // HOUR} h" if days < _DAYS_WITH_HOURS and rest >= HOUR else shown
