"""Legal deadlines of privacy requests: for confirming receipt, for the answer, and for the start of an erasure.

A deadline is a day: it passes when the day ends, in UTC or in the tenant's time zone, whichever is earlier. Documents
state dates in UTC.

An engineer's interpretation of GDPR Art. 12(3), 11 CCR 7021 and seed 004 (§5.3), not legal advice.
"""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import MINYEAR, UTC, date, datetime, time, timedelta, tzinfo
from typing import Final, Literal, TypeVar

from app.errors import FieldError, Invalid

Law = Literal["user", "gdpr", "ccpa"]

LAWS: Final[tuple[Law, ...]] = ("user", "gdpr", "ccpa")
GRACE_DAYS: Final[dict[Law, int]] = {"user": 30, "gdpr": 7, "ccpa": 7}
"""Default grace period during which an erasure can be cancelled, in days."""
GRACE_DAYS_MAX: Final[dict[Law, int]] = {"user": 30, "gdpr": 14, "ccpa": 14}
CCPA_DAYS: Final = 45
EXTENSION_MONTHS: Final = 2
"""Further months that GDPR Art. 12(3) allows, counted from the end of the first."""
CCPA_CONFIRM_DAYS: Final = 10
"""Days for confirming receipt, in business days."""
RESERVE: Final = timedelta(days=5)
"""Erasing starts at least this long before the legal deadline, even if that shortens the grace period."""
_SATURDAY: Final = 5
_LAST_SECOND: Final = time(23, 59, 59)

_Day = TypeVar("_Day", bound=date)


@dataclass(frozen=True, slots=True)
class LegalDeadlines:
    """Deadlines, in UTC. Those of a law are the last second of a day.

    Attributes:
        confirm_by: Deadline for confirming receipt to the person; None if no law sets one.
        due_at: Deadline for completion; None if no law sets one.
        erase_after: End of the grace period, when erasing starts.
    """

    confirm_by: datetime | None
    due_at: datetime | None
    erase_after: datetime


def legal_deadlines(
    law: Law,
    received_at: datetime,
    grace_days: int | None = None,
    *,
    entered_at: datetime | None = None,
    due_at: datetime | None = None,
    zone: tzinfo = UTC,
) -> LegalDeadlines:
    """Return the deadlines of an erasure.

    Args:
        law: Legal basis of the request; `user` if the request refers to no law: then there are no legal deadlines.
        received_at: Time of receipt, with a time zone.
        grace_days: Length of the grace period, from 0; None for the law's default. The period is shortened if erasing
            would otherwise start later than `RESERVE` before `due_at`.
        entered_at: Start of the grace period, if the request was entered after its receipt; None for `received_at`.
        due_at: Deadline of a request that was extended; None for the law's deadline.
        zone: The tenant's time zone.

    Raises:
        Invalid: The grace period is above `GRACE_DAYS_MAX`, or negative.
    """
    days_max = GRACE_DAYS_MAX[law]
    days = GRACE_DAYS[law] if grace_days is None else grace_days
    if not 0 <= days <= days_max:
        raise Invalid(errors=[FieldError("grace_days", f"isn't from 0 to {days_max}", days, days_max)])
    entered_at = (received_at if entered_at is None else entered_at).astimezone(UTC)
    due_at = due_at or _due_at(law, received_at, zone)
    erase_after = entered_at + timedelta(days=days)
    if due_at is not None:
        erase_after = min(erase_after, max(due_at - RESERVE, entered_at))
    return LegalDeadlines(confirmation_deadline(law, received_at, zone), due_at, erase_after)


def confirmation_deadline(law: Law, received_at: datetime, zone: tzinfo = UTC) -> datetime | None:
    """Return the deadline for confirming receipt to the person, or None if no law sets one."""
    if law != "ccpa":
        return None
    return _end_of_day(_business_days_later(_receipt_day(received_at, zone), CCPA_CONFIRM_DAYS), zone)


def _due_at(law: Law, received_at: datetime, zone: tzinfo) -> datetime | None:
    day = _receipt_day(received_at, zone)
    if law == "gdpr":
        return _end_of_day(add_month(day), zone)
    return _end_of_day(day + timedelta(days=CCPA_DAYS), zone) if law == "ccpa" else None


def _receipt_day(received_at: datetime, zone: tzinfo) -> date:
    """Return the day of receipt, in UTC or in the zone, whichever is earlier.

    A time of exactly midnight in UTC means that only a date was given: the day is this date.
    """
    received_at = received_at.astimezone(UTC)
    if received_at.time() == time() or received_at.year == MINYEAR:
        return received_at.date()
    return min(received_at.date(), received_at.astimezone(zone).date())


def _end_of_day(day: date, zone: tzinfo) -> datetime:
    """Return the last second of a day, in UTC or in the zone, whichever is earlier."""
    return min(datetime.combine(day, _LAST_SECOND, each).astimezone(UTC) for each in (UTC, zone))


def extended_deadline(law: Law, received_at: datetime, months: int | None, zone: tzinfo = UTC) -> datetime | None:
    """Return the deadline after an extension, counted from receipt; None if the law sets no deadline.

    Args:
        law: GDPR Art. 12(3) allows two further months, Cal. Civ. Code § 1798.130(a)(2) 45 further days.
        received_at: Time of receipt, with a time zone.
        months: Number of further months under the GDPR; None for `EXTENSION_MONTHS`.
        zone: The tenant's time zone.

    Raises:
        Invalid: The law doesn't extend deadlines by months.
    """
    day = _receipt_day(received_at, zone)
    if law == "gdpr":
        return _end_of_day(add_month(day, 1 + (months or EXTENSION_MONTHS)), zone)
    if months is not None:
        raise Invalid(errors=[FieldError("months", "is allowed only for requests under the GDPR")])
    return _end_of_day(day + timedelta(days=2 * CCPA_DAYS), zone) if law == "ccpa" else None


def add_month(moment: _Day, months: int = 1) -> _Day:
    """Return the same day of a later month, or that month's last: 31 January becomes 28 or 29 February."""
    years, month = divmod(moment.month - 1 + months, 12)
    year, month = moment.year + years, month + 1
    return moment.replace(year=year, month=month, day=min(moment.day, monthrange(year, month)[1]))


def _business_days_later(day: date, days: int) -> date:
    """Return the day this many business days later: Monday to Friday, including public holidays."""
    while days:
        day += timedelta(days=1)
        days -= day.weekday() < _SATURDAY
    return day
