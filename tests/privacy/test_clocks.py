"""Deadlines of privacy requests, and the time until which they can be cancelled."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.privacy.legal_deadlines import GRACE_DAYS_MAX, LAWS, RESERVE, Law, add_month, legal_deadlines
from app.errors import Invalid


def day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def end_of(text: str) -> datetime:
    return day(text) + timedelta(hours=23, minutes=59, seconds=59)


@pytest.mark.acceptance(2)
@pytest.mark.parametrize(
    ("received", "due"),
    [
        ("2026-01-31", "2026-02-28"),
        ("2028-01-31", "2028-02-29"),
        ("2026-03-31", "2026-04-30"),
        ("2026-11-20", "2026-12-20"),
        ("2026-12-31", "2027-01-31"),
    ],
)
def test_gdpr_gives_a_calendar_month(received: str, due: str) -> None:
    assert legal_deadlines("gdpr", day(received)).due_at == end_of(due)


@pytest.mark.parametrize(
    ("zone", "received", "due"),
    [
        ("UTC", "2026-10-23T23:30", "2026-11-23T23:59:59"),
        ("Asia/Tokyo", "2026-10-23", "2026-11-23T14:59:59"),  # the day ends earlier there than in UTC
        ("Asia/Tokyo", "2026-10-23T20:00", "2026-11-23T14:59:59"),  # 24 October there
        ("America/Los_Angeles", "2026-10-23", "2026-11-23T23:59:59"),  # a date, not the evening before
        ("America/Los_Angeles", "2026-10-23T03:00", "2026-11-22T23:59:59"),  # 22 October there
        ("America/Los_Angeles", "0001-01-01T03:00", "0001-02-01T23:59:59"),
    ],
)
def test_a_deadline_is_the_end_of_a_day_in_utc_and_in_the_time_zone(zone: str, received: str, due: str) -> None:
    found = legal_deadlines("gdpr", day(received), zone=ZoneInfo(zone))
    assert found.due_at == day(due)


@pytest.mark.acceptance(2)
def test_ccpa_gives_45_days_and_ten_business_days_to_confirm() -> None:
    found = legal_deadlines("ccpa", day("2026-11-20"))  # a Friday
    assert found.due_at == end_of("2027-01-04")
    assert found.confirm_by == end_of("2026-12-04")


def test_a_persons_own_deletion_has_no_legal_clock_and_thirty_days() -> None:
    found = legal_deadlines("user", day("2026-11-20"))
    assert (found.due_at, found.confirm_by) == (None, None)
    assert found.erase_after == day("2026-12-20")


@pytest.mark.acceptance(3)
@pytest.mark.parametrize("law", LAWS)
def test_grace_may_be_nought_and_no_more_than_the_most(law: Law) -> None:
    assert legal_deadlines(law, day("2026-11-20"), 0).erase_after == day("2026-11-20")
    for wrong in (-1, GRACE_DAYS_MAX[law] + 1):
        with pytest.raises(Invalid) as refused:
            legal_deadlines(law, day("2026-11-20"), wrong)
        assert refused.value.errors[0].field == "grace_days"


@pytest.mark.acceptance(3)
@given(
    st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - the strategy adds UTC
    st.sampled_from(LAWS),
    st.integers(0, 14),
)
def test_erasing_begins_in_time(received: datetime, law: Law, grace: int) -> None:
    found = legal_deadlines(law, received, grace)
    assert received <= found.erase_after <= received + timedelta(days=grace)
    if found.due_at is not None:
        assert found.erase_after <= found.due_at - RESERVE
        assert timedelta(days=28) <= found.due_at - received < timedelta(days=46)


@given(st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_a_month_later_is_in_the_next_month(moment: datetime) -> None:
    later = add_month(moment)
    assert (later.year * 12 + later.month) - (moment.year * 12 + moment.month) == 1
    assert later.day <= moment.day
