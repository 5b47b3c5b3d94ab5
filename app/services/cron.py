"""When a cron expression comes next, in a time zone. APScheduler's trigger does the calendar."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from functools import lru_cache
from uuid import UUID
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger

_FIELDS = ("minute", "hour", "day", "month", "day_of_week")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")


def next_time(cron: str, time_zone: str, after: datetime) -> datetime | None:
    """The first moment later than `after` that the expression names, None if there is none.

    A job at a fixed hour runs once on the night in autumn that has that hour twice: the second is skipped.

    Args:
        cron: Five fields; days of the week are 0 to 7 from Sunday to Sunday, or names. Day of month and day of
            week together are refused, since systems differ on what that means.
        time_zone: IANA name.
        after: With an offset.

    Raises:
        ValueError: The expression can't be read; names the field.
    """
    trigger = _trigger(cron, time_zone)
    fixed_hour = cron.split()[1].isdigit()
    moment: datetime | None = trigger.get_next_fire_time(None, after + timedelta(microseconds=1))
    while moment is not None and fixed_hour and moment.fold:
        moment = trigger.get_next_fire_time(None, moment + timedelta(minutes=1))
    return moment


def jitter(tenant_id: UUID, task: str, most_seconds: int) -> timedelta:
    """A delay that spreads tenants over the window and stays the same for each, so that a night keeps its time."""
    if not most_seconds:
        return timedelta()
    digest = hashlib.blake2b(f"{tenant_id}/{task}".encode(), digest_size=8).digest()
    return timedelta(seconds=int.from_bytes(digest, "big") % most_seconds)


@lru_cache(maxsize=1024)
def _trigger(cron: str, time_zone: str) -> CronTrigger:
    parts = cron.split()
    if len(parts) != len(_FIELDS):
        raise ValueError(f"cron expression {cron!r} has {len(parts)} fields, not {len(_FIELDS)}")
    fields = dict(zip(_FIELDS, parts, strict=True))
    if fields["day"] != "*" and fields["day_of_week"] != "*":
        raise ValueError(f"cron expression {cron!r} names both a day of the month and a day of the week")
    fields["day_of_week"] = _named_weekdays(fields["day_of_week"])
    return CronTrigger(**fields, timezone=ZoneInfo(time_zone))


def _named_weekdays(field: str) -> str:
    """Numbers as names: APScheduler counts from Monday, cron from Sunday."""
    if field.startswith("*"):
        return field
    days: list[str] = []
    for part in field.lower().split(","):
        first, _, last = part.partition("-")
        if not last:
            days.append(_weekday(first))
            continue
        start, end = _number(first), _number(last)
        days += [_WEEKDAYS[day % 7] for day in range(start, end + 1 if end >= start else end + 8)]
    return ",".join(dict.fromkeys(days))


def _weekday(name: str) -> str:
    return _WEEKDAYS[_number(name)]


def _number(name: str) -> int:
    if name.isdigit() and int(name) < len(_WEEKDAYS):
        return int(name)
    if name in _WEEKDAYS:
        return _WEEKDAYS.index(name)
    raise ValueError(f"{name!r} is no day of the week: use 0 to 7 or {', '.join(_WEEKDAYS[:7])}")
