"""The order of open privacy requests by urgency."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from app.domain.privacy.legal_deadlines import Law, legal_deadlines
from app.domain.privacy.requests import PrivacyRequest
from app.domain.privacy.urgency import next_deadline, sort_by_urgency

NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)


def request(law: Law, days_ago: float, *, confirmed: bool = False) -> PrivacyRequest:
    received = NOW - timedelta(days=days_ago)
    times = legal_deadlines(law, received)
    confirmed_at = received if confirmed else None
    return PrivacyRequest(uuid4(), "access", law, "mail", received, times.confirm_by, times.due_at, confirmed_at)


def test_what_is_due_next_is_the_confirmation_until_that_is_entered() -> None:
    open_one, confirmed = (next_deadline(request("ccpa", 0, confirmed=each), NOW) for each in (False, True))
    assert (open_one.what, int(open_one.days_left or 0)) == ("confirm", 14)  # ten business days
    assert (confirmed.what, int(confirmed.days_left or 0)) == ("answer", 45)


def test_a_month_under_the_gdpr() -> None:
    found = next_deadline(request("gdpr", 0), NOW)
    assert (found.what, found.at) == ("answer", datetime(2026, 4, 20, 23, 59, 59, tzinfo=UTC))
    assert int(found.days_left or 0) == 31


def test_a_wish_under_no_law_is_due_never() -> None:
    found = next_deadline(request("user", 400), NOW)
    assert (found.what, found.at, found.days_left, found.severity) == (None, None, None, None)


@pytest.mark.parametrize(
    ("days_ago", "severity"), [(20, None), (24, None), (25, "attention"), (30, "attention"), (31, "trouble")]
)
def test_how_urgent_it_is(days_ago: float, severity: str | None) -> None:
    assert next_deadline(request("ccpa", days_ago + 14, confirmed=True), NOW).severity == severity


def test_the_worst_come_first_and_those_without_a_day_last() -> None:
    old_wish, new_wish = request("user", 300), request("user", 1)
    over, soon, later = request("gdpr", 50), request("ccpa", 13), request("gdpr", 2)
    found = sort_by_urgency([new_wish, later, old_wish, soon, over], NOW)
    assert [each.request for each in found] == [over, soon, later, old_wish, new_wish]
