"""Time expressions and the spans of time that they denote."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.text.time_expressions import SPANS_MAX, find_time_spans

BERLIN = ZoneInfo("Europe/Berlin")
SATURDAY = datetime(2026, 3, 7, 12, tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("query", "start", "end"),
    [
        ("What did we buy in May 2023?", "2023-05-01", "2023-06-01"),
        ("on 3 July 2022", "2022-07-03", "2022-07-04"),
        ("July 3rd, 2022", "2022-07-03", "2022-07-04"),
        ("the 3rd of Sept 2022", "2022-09-03", "2022-09-04"),
        ("on 2023-05-07", "2023-05-07", "2023-05-08"),
        ("2023-05", "2023-05-01", "2023-06-01"),
        ("the trip of 3 July", "2024-07-03", "2024-07-04"),
        ("in may", "2024-05-01", "2024-06-01"),
        ("29 Feb", "2024-02-29", "2024-03-01"),
        ("where were we in 2021?", "2021-01-01", "2022-01-01"),
        ("summer 2021", "2021-06-01", "2021-09-01"),
        ("in the winter of 2021", "2021-12-01", "2022-03-01"),
        ("last summer", "2025-06-01", "2025-09-01"),
        ("last May", "2025-05-01", "2025-06-01"),
        ("last week", "2026-02-23", "2026-03-02"),
        ("this weekend", "2026-03-07", "2026-03-09"),
        ("last year", "2025-01-01", "2026-01-01"),
        ("next month", "2026-04-01", "2026-05-01"),
        ("last Friday", "2026-03-06", "2026-03-07"),
        ("next Saturday", "2026-03-14", "2026-03-15"),
        ("Yesterday", "2026-03-06", "2026-03-07"),
        ("three days ago", "2026-03-04", "2026-03-05"),
        ("a week ago", "2026-02-25", "2026-03-04"),
        ("two weeks before 7 May 2023", "2023-04-20", "2023-04-27"),
        ("the Sunday before October 25, 2022", "2022-10-23", "2022-10-24"),
        ("the Tuesday after 25 October 2022", "2022-11-01", "2022-11-02"),
    ],
)
def test_what_a_query_means(query: str, start: str, end: str) -> None:
    [span] = find_time_spans(query, SATURDAY, [2024])
    assert (span.start, span.end) == tuple(datetime.fromisoformat(day).replace(tzinfo=BERLIN) for day in (start, end))


@pytest.mark.parametrize(
    "query",
    [
        "",
        "What may happen?",
        "May I come?",
        "Did he march or fall?",
        "Room 2077 of the hotel",
        "31 February",
        "2023-13-01",
        "some time ago",
        "the last one",
        "im Mai",
    ],
)
def test_what_is_no_time(query: str) -> None:
    assert find_time_spans(query, SATURDAY, [2024]) == []


def test_a_date_without_a_year_may_be_of_any() -> None:
    found = find_time_spans("in July", SATURDAY, [2024, 2022, 2022])
    assert [span.start.year for span in found] == [2022, 2024]


def test_several_times_are_all_read() -> None:
    found = find_time_spans("between 3 May 2022 and June 2023", SATURDAY, [])
    assert [span.start.date().isoformat() for span in found] == ["2022-05-03", "2023-06-01"]


def test_only_so_many_are_read() -> None:
    assert len(find_time_spans("3 May 2022, " * 1000, SATURDAY, [])) == SPANS_MAX


@given(st.text(), st.datetimes(timezones=st.just(UTC)), st.lists(st.integers(1, 9999), max_size=3))
def test_any_text_at_any_time_can_be_read(query: str, now: datetime, years: list[int]) -> None:
    find_time_spans(query, now, years)
    for said in ("last summer", "next year", "999 years ago", "999 years before 1 May", "last month", "this week"):
        assert all(span.start < span.end for span in find_time_spans(said, now, years))
