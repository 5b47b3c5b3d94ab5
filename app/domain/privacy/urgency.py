"""Which open request about somebody's data is the most urgent: what is due next of each, and in how many days."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from app.domain.privacy.requests import Request
from app.domain.verdict import DAYS_LEFT, Severity

Next = Literal["confirm", "answer"]

_DAY_SECONDS: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Deadline:
    """What is due next of a request.

    Attributes:
        what: To confirm it, or to answer it; None where no law gives a day.
        at: By when.
        days_left: Until then, below 0 once it is over.
    """

    request: Request
    what: Next | None = None
    at: datetime | None = None
    days_left: float | None = None

    @property
    def severity(self) -> Severity | None:
        """How urgent it is; None while there is time."""
        if self.days_left is None or self.days_left >= DAYS_LEFT:
            return None
        return "attention" if self.days_left >= 1 else "trouble"


def deadline(request: Request, now: datetime) -> Deadline:
    """What is due next of a request that is open."""
    due: list[tuple[datetime, Next]] = []
    if request.confirm_by is not None and request.confirmed_at is None:
        due.append((request.confirm_by, "confirm"))
    if request.due_at is not None:
        due.append((request.due_at, "answer"))
    if not due:
        return Deadline(request)
    at, what = min(due)
    return Deadline(request, what, at, (at - now).total_seconds() / _DAY_SECONDS)


def worst_first(requests: Iterable[Request], now: datetime) -> list[Deadline]:
    """Open requests, those first whose next day is the nearest; those without one at the end, the oldest first."""
    found = [deadline(request, now) for request in requests]
    return sorted(found, key=lambda one: (one.at is None, one.at or one.request.received_at))
