"""Compute the next time of a cron expression in a time zone, using APScheduler's trigger for calendar arithmetic."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from uuid import UUID
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger

_FIELDS = ("minute", "hour", "day", "month", "day_of_week")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")

_LONGEST_CHANGE = timedelta(hours=3)


def next_time(cron: str, time_zone: str, after: datetime) -> datetime | None:
    """Return the first time after `after` that matches the expression, in UTC, or None if there is none.

    A job at fixed hours runs once per date. When clocks are set back and the job's hour occurs twice, the job runs at
    the first occurrence. When clocks are set forward and its hour is skipped, the job runs later by the length of the
    change; if the skipped hour ends at midnight (America/Nuuk), this is on the next date. A job whose hour field starts
    with `*` runs in every matching hour that actually occurs.

    Args:
        cron: Five fields. Days of the week are names, or 0 to 7 from Sunday to Sunday. A day of the month combined with
            a day of the week is refused, because cron implementations interpret the combination differently.
        time_zone: IANA name.
        after: A timezone-aware time.

    Raises:
        ValueError: The expression is invalid; the message names the field.
    """
    trigger, zone = _trigger(cron), ZoneInfo(time_zone)
    start = after.astimezone(UTC) + timedelta(microseconds=1)
    if cron.split()[1].startswith("*"):
        return _as_time_passes(trigger, zone, start)
    return _on_the_wall(trigger, zone, start)


def _on_the_wall(trigger: CronTrigger, zone: ZoneInfo, start: datetime) -> datetime | None:
    earliest: datetime | None = None
    wall = _first(trigger, start + _offset(zone, start) - _LONGEST_CHANGE)
    while wall is not None:
        if earliest is not None and wall >= earliest + _offset(zone, earliest):
            return earliest
        # `fold=0` selects the first of two occurrences. A skipped time is converted with the offset before the change
        # and so becomes later, possibly later than a match after the gap: continue the search up to this time.
        moment = wall.replace(tzinfo=zone).astimezone(UTC)
        if moment >= start and (earliest is None or moment < earliest):
            earliest = moment
        wall = _first(trigger, wall + timedelta(microseconds=1))
    return earliest


def _as_time_passes(trigger: CronTrigger, zone: ZoneInfo, start: datetime) -> datetime | None:
    while True:
        offset = _offset(zone, start)
        wall = _first(trigger, start + offset)
        if wall is None or _offset(zone, wall - offset) == offset:
            return None if wall is None else wall - offset
        start = _change(zone, start, wall - offset)


def _change(zone: ZoneInfo, start: datetime, end: datetime) -> datetime:
    """Return the time, to the second, at which the offset in force at `start` ends; `end` has a different offset."""
    before = start
    while end - before > timedelta(seconds=1):
        middle = before + (end - before) / 2
        if _offset(zone, middle) == _offset(zone, start):
            before = middle
        else:
            end = middle
    return end.replace(microsecond=0)


def _offset(zone: ZoneInfo, moment: datetime) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


def _first(trigger: CronTrigger, wall: datetime) -> datetime | None:
    """Return the first match at or after a wall-clock time; both are represented as if they were UTC.

    The trigger is always used in UTC: in zones with clock changes, APScheduler skips the runs of some nights and never
    gets past others.
    """
    moment: datetime | None = trigger.get_next_fire_time(None, wall)
    return moment


def tenant_jitter(tenant_id: UUID, task: str, most_seconds: int) -> timedelta:
    """Return a delay below `most_seconds` that spreads tenants over time; it is constant per tenant and task."""
    if not most_seconds:
        return timedelta()
    digest = hashlib.blake2b(f"{tenant_id}/{task}".encode(), digest_size=8).digest()
    return timedelta(seconds=int.from_bytes(digest, "big") % most_seconds)


@lru_cache(maxsize=1024)
def _trigger(cron: str) -> CronTrigger:
    parts = cron.split()
    if len(parts) != len(_FIELDS):
        raise ValueError(f"cron expression {cron!r} has {len(parts)} fields, not {len(_FIELDS)}")
    fields = dict(zip(_FIELDS, parts, strict=True))
    if fields["day"] != "*" and fields["day_of_week"] != "*":
        raise ValueError(f"cron expression {cron!r} names both a day of the month and a day of the week")
    fields["day_of_week"] = _named_weekdays(fields["day_of_week"])
    return CronTrigger(**fields, timezone=UTC)


def _named_weekdays(field: str) -> str:
    """Replace numbers of weekdays with names, because APScheduler numbers weekdays from Monday and cron from Sunday."""
    if field == "*":
        return field
    if field.startswith("*/") and field[2:].isdigit() and int(field[2:]):
        return ",".join(_WEEKDAYS[: 7 : int(field[2:])])
    days: list[str] = []
    for part in field.lower().split(","):
        first, _, last = part.partition("-")
        if not last:
            days.append(_WEEKDAYS[_number(first)])
            continue
        start, end = _number(first), _number(last)
        days += [_WEEKDAYS[day % 7] for day in range(start, end + 1 if end >= start else end + 8)]
    return ",".join(dict.fromkeys(days))


def _number(name: str) -> int:
    if name.isdigit() and int(name) < len(_WEEKDAYS):
        return int(name)
    if name in _WEEKDAYS:
        return _WEEKDAYS.index(name)
    raise ValueError(f"{name!r} is no day of the week: use 0 to 7 or {', '.join(_WEEKDAYS[:7])}")
