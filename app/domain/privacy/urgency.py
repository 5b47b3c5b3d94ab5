"""Rank open privacy requests by their next legal deadline and the days left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from app.domain.health_findings import DAYS_LEFT, Severity
from app.domain.privacy.requests import PrivacyRequest

Next = Literal["confirm", "answer"]

_DAY_SECONDS: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Deadline:
    """Next deadline of a request.

    Attributes:
        what: The step that is due, `confirm` or `answer`; None if no law sets a deadline.
        at: The deadline.
        days_left: Days until the deadline, negative once it has passed.
    """

    request: PrivacyRequest
    what: Next | None = None
    at: datetime | None = None
    days_left: float | None = None

    @property
    def severity(self) -> Severity | None:
        """Severity of the deadline; None while there is enough time."""
        if self.days_left is None or self.days_left >= DAYS_LEFT:
            return None
        return "attention" if self.days_left >= 1 else "trouble"


def next_deadline(request: PrivacyRequest, now: datetime) -> Deadline:
    """Return the next deadline of an open request; a recorded partial answer meets the deadline of the answer."""
    due: list[tuple[datetime, Next]] = []
    if request.confirm_by is not None and request.confirmed_at is None:
        due.append((request.confirm_by, "confirm"))
    if request.due_at is not None and request.partial_sent_at is None:
        due.append((request.due_at, "answer"))
    if not due:
        return Deadline(request)
    at, what = min(due)
    return Deadline(request, what, at, (at - now).total_seconds() / _DAY_SECONDS)


def sort_by_urgency(requests: Iterable[PrivacyRequest], now: datetime) -> list[Deadline]:
    """Return open requests by their next deadline; requests without a deadline follow, oldest first."""
    deadlines = [next_deadline(request, now) for request in requests]
    return sorted(deadlines, key=lambda deadline: (deadline.at is None, deadline.at or deadline.request.received_at))
