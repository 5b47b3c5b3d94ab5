"""Deadlines of privacy requests, and the time until which they can be cancelled."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.privacy.legal_deadlines import GRACE_DAYS_MAX, LAWS, RESERVE, Law, add_month, legal_deadlines
from app.errors import Invalid


def day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


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
    assert legal_deadlines("gdpr", day(received)).due_at == day(due)


@pytest.mark.acceptance(2)
def test_ccpa_gives_45_days_and_ten_business_days_to_confirm() -> None:
    found = legal_deadlines("ccpa", day("2026-11-20"))  # a Friday
    assert found.due_at == day("2027-01-04")
    assert found.confirm_by == day("2026-12-04")


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
        assert timedelta(days=28) <= found.due_at - received <= timedelta(days=45)


@given(st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_a_month_later_is_in_the_next_month(moment: datetime) -> None:
    later = add_month(moment)
    assert (later.year * 12 + later.month) - (moment.year * 12 + moment.month) == 1
    assert later.day <= moment.day
