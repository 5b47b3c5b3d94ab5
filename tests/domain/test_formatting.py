"""Numbers, sizes and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from app.domain import formatting

DAY = 86_400


@pytest.mark.parametrize(
    ("seconds_ago", "shown"),
    [
        (None, "never"),
        (0.3, "just now"),
        (-0.3, "just now"),
        (1, "1 second ago"),
        (59.6, "1 minute ago"),
        (69, "1 minute ago"),
        (0.0008 * DAY, "1 minute ago"),
        (3570, "1 hour ago"),
        (7300, "2 hours ago"),
        (0.99 * DAY, "1 day ago"),
        (-2.9 * DAY, "in 3 days"),
        (89 * DAY, "89 days ago"),
        (120 * DAY, "4 months ago"),
        (-800 * DAY, "in 2 years"),
    ],
)
def test_relative_times_are_in_words(seconds_ago: float | None, shown: str) -> None:
    assert formatting.format_relative(seconds_ago) == shown


@pytest.mark.parametrize(
    ("days", "shown"),
    [
        (26.9, "26 days left"),
        (1, "1 day left"),
        (0.9, "less than 1 day left"),
        (0, "less than 1 day left"),
        (-0.001, "1 day overdue"),
        (-1.5, "2 days overdue"),
    ],
)
def test_deadlines_are_in_whole_days(days: float, shown: str) -> None:
    assert formatting.format_days_left(days) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "never"),
        (0, "0 s"),
        (3.14, "3.1 s"),
        (9.97, "10 s"),
        (59, "59 s"),
        (60, "1 min"),
        (75, "1 min 15 s"),
        (655, "10 min"),
        (3700, "1 h 1 min"),
        (90_000, "1 day 1 h"),
        (1e6, "11 days"),
    ],
)
def test_durations_have_one_or_two_units(seconds: float | None, shown: str) -> None:
    assert formatting.format_span(seconds) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0, "0"),
        (2068, "2,068"),
        (1234567, "1,234,567"),
        (0.12345, "0.123"),
        (1234.5, "1,234"),
        (3.14e-06, "almost 0"),
    ],
)
def test_numbers_have_commas_and_no_exponents(value: float | None, shown: str) -> None:
    assert formatting.format_number(value) == shown


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (None, "–"),
        (0, "0%"),
        (0.0001, "<0.1%"),
        (0.004, "0.4%"),
        (0.05, "5%"),
        (0.286, "29%"),
        (0.9996, "99.9%"),
        (1, "100%"),
    ],
)
def test_only_all_is_a_hundred_percent_and_only_nothing_zero(share: float | None, shown: str) -> None:
    assert formatting.format_percent(share) == shown


def test_compared_shares_have_the_same_decimals() -> None:
    assert [formatting.format_percent(share, 1) for share in (0.05, 0.941, 1)] == ["5.0%", "94.1%", "100.0%"]


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (None, "–"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (5_600, "5.6 KB"),
        (999_960, "1.0 MB"),
        (123_456_789, "123 MB"),
        (5e15, "5,000 TB"),
    ],
)
def test_sizes_have_decimal_units(size: float | None, shown: str) -> None:
    assert formatting.format_bytes(size) == shown


@pytest.mark.parametrize(
    ("per_second", "shown"),
    [(None, "–"), (0, "0/s"), (12, "12/s"), (0.0229, "1.4/min"), (0.0003, "1.1/h"), (1e-5, "less than 1/h")],
)
def test_a_rate_has_the_unit_that_makes_it_readable(per_second: float | None, shown: str) -> None:
    assert formatting.format_rate(per_second) == shown


@pytest.mark.parametrize(
    ("per_second", "beside", "shown"),
    [(58 / 3600, 1.9 / 60, "0.97/min"), (1.9 / 60, 58 / 3600, "1.9/min"), (0.0, 2.0, "0/s"), (0.0, 1e-5, "0/h")],
)
def test_a_rate_has_the_unit_of_the_larger_one_of_its_row(per_second: float, beside: float, shown: str) -> None:
    assert formatting.format_rate(per_second, beside) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (0.5, "0.5"), (1034.2, "1,034"), (2068, "2,068"), (103_400, "103K"), (1.2e6, "1.2M"), (3e9, "3G")],
)
def test_labels_of_axes_are_exact_while_there_is_room(value: float, shown: str) -> None:
    assert formatting.format_axis(value) == shown


@pytest.mark.parametrize(
    ("cost", "shown"),
    [(None, "unknown"), (0, "0.00"), (0.00002, "less than 0.0001"), (0.0042, "0.0042"), (1234.5, "1,234.50")],
)
def test_small_costs_keep_their_digits(cost: float | None, shown: str) -> None:
    assert formatting.format_cost(cost) == shown


@pytest.mark.parametrize(("milliseconds", "shown"), [(None, "–"), (0.84, "0.8 ms"), (34.2, "34 ms"), (1234, "1.2 s")])
def test_latencies_change_to_seconds(milliseconds: float | None, shown: str) -> None:
    assert formatting.format_latency(milliseconds) == shown


def test_times_are_shown_in_utc() -> None:
    assert formatting.format_minute(None) == "–"
    assert formatting.format_minute("2026-11-22T08:51:53.890140Z") == "2026-11-22 08:51 UTC"
    there = timezone(timedelta(hours=2))
    assert formatting.format_minute(datetime(2026, 11, 22, 1, 30, tzinfo=there)) == "2026-11-21 23:30 UTC"
    assert formatting.format_minute(datetime(2026, 11, 22, 1, 30)) == "2026-11-22 01:30 UTC"  # noqa: DTZ001
    assert formatting.format_minute(datetime(2026, 11, 22, tzinfo=UTC)) == "2026-11-22 00:00 UTC"


def test_counts_agree_with_their_noun() -> None:
    assert formatting.count_of(1, "memory", "memories") == "1 memory"
    assert formatting.count_of(2068, "memory", "memories") == "2,068 memories"
