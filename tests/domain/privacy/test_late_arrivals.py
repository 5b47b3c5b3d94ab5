"""Delayed writes: the place in the order of acceptance that they would have had if they had been sent at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.domain.ingest.ids import first_seq
from app.domain.ingest.memory import Written
from app.domain.privacy.late_arrivals import delayed_seq

ACCEPTED_MS = 1_790_000_000_000
OWN = first_seq(f"{ACCEPTED_MS}-3")
EARLIER = f"{ACCEPTED_MS - 40_000}-5"


def seq(sent_at: datetime, minutes: float, after: str | None = None) -> int:
    """Return the number of a write that its sender made so many minutes before it sent it."""
    written = Written(sent_at - timedelta(minutes=minutes), after)
    return delayed_seq(written, OWN, ACCEPTED_MS, round(sent_at.timestamp() * 1000))


@pytest.mark.parametrize("year", [1970, 2026, 2099])
def test_the_senders_clock_may_show_any_time(year: int) -> None:
    sent_at = datetime(year, 6, 1, tzinfo=UTC)
    assert seq(sent_at, 1) == first_seq(f"{ACCEPTED_MS - 60_000}-0")
    assert seq(sent_at, 0) == first_seq(f"{ACCEPTED_MS}-0")


def test_a_write_comes_after_the_last_position_that_its_sender_had_seen() -> None:
    now = datetime(2026, 6, 1, tzinfo=UTC)
    assert seq(now, 1, EARLIER) == first_seq(EARLIER)
    assert seq(now, 0.5, EARLIER) == first_seq(f"{ACCEPTED_MS - 30_000}-0")


def test_a_write_never_comes_after_its_acceptance() -> None:
    now = datetime(2026, 6, 1, tzinfo=UTC)
    assert seq(now, 1, f"{ACCEPTED_MS + 1}-0") == OWN


def test_a_write_from_after_its_sending_is_as_old_as_it_may_be() -> None:
    """The sender's clock was set back in between."""
    now = datetime(2026, 6, 1, tzinfo=UTC)
    assert seq(now, -60) == 0
    assert seq(now, -60, EARLIER) == first_seq(EARLIER)
    assert delayed_seq(Written(now), OWN, ACCEPTED_MS, None) == 0
