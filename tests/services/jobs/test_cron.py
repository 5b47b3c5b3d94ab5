"""The next time of a cron expression: across clock changes, by weekday, on rare dates, and invalid expressions."""

from __future__ import annotations

import calendar
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise, takewhile
from uuid import UUID
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.services.jobs.cron import next_time, tenant_jitter

BERLIN = "Europe/Berlin"
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def times(cron: str, time_zone: str = "UTC", after: datetime = NEW_YEAR) -> Iterator[datetime]:
    """Yield every time after this moment."""
    while True:
        following = next_time(cron, time_zone, after)
        if following is None:
            return
        assert following > after
        yield following
        after = following


def within(cron: str, time_zone: str, day: date) -> list[datetime]:
    """Return the times on one local day."""
    zone = ZoneInfo(time_zone)
    start = datetime(day.year, day.month, day.day, tzinfo=zone) - timedelta(microseconds=1)
    found: list[datetime] = []
    for moment in times(cron, time_zone, start.astimezone(UTC)):
        if moment.astimezone(zone).date() != day:
            return found
        found.append(moment)
    return found


AUTUMN, SPRING = date(2026, 10, 25), date(2026, 3, 29)


@pytest.mark.parametrize("cron", ["30 2 * * *", "30 2 25 * *", "30 2 * * sun", "0 2,14 * * *", "15 2-2 * * *"])
def test_a_fixed_hour_comes_once_on_the_night_that_has_it_twice(cron: str) -> None:
    [first, *rest] = within(cron, BERLIN, AUTUMN)
    assert first.astimezone(ZoneInfo(BERLIN)).utcoffset() == timedelta(hours=2)
    assert [moment.astimezone(ZoneInfo(BERLIN)).hour for moment in rest] == ([14] if "14" in cron else [])


@pytest.mark.parametrize(("day", "runs"), [(AUTUMN, 25), (SPRING, 23), (date(2026, 7, 1), 24)])
def test_every_hour_means_every_hour_that_there_is(day: date, runs: int) -> None:
    found = within("0 * * * *", BERLIN, day)
    assert len({moment.astimezone(UTC) for moment in found}) == len(found) == runs


def test_a_quarter_of_an_hour_goes_on_through_both_nights() -> None:
    assert len(within("*/15 * * * *", BERLIN, AUTUMN)) == 100
    assert len(within("*/15 * * * *", BERLIN, SPRING)) == 92


@pytest.mark.parametrize("time_zone", [BERLIN, "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "UTC"])
@pytest.mark.parametrize("hour", [0, 1, 2, 3, 23])
def test_a_nightly_job_runs_once_on_every_date_of_two_years(time_zone: str, hour: int) -> None:
    zone = ZoneInfo(time_zone)
    found = Counter(
        moment.astimezone(zone).date()
        for moment in islice(times(f"30 {hour} * * *", time_zone, datetime(2027, 12, 31, 12, tzinfo=UTC)), 730)
    )
    assert set(found.values()) == {1}
    assert len(found) == 730
    assert max(found) - min(found) == timedelta(days=729)


def test_an_hour_that_is_left_out_comes_later_that_night() -> None:
    [moment] = within("30 2 * * *", BERLIN, SPRING)
    assert moment.astimezone(ZoneInfo(BERLIN)).hour == 3
    late = moment - timedelta(minutes=10)
    assert next_time("30 2 * * *", BERLIN, late) == moment


@pytest.mark.parametrize(
    ("cron", "time_zone", "day", "expected"),
    [
        ("30 2,3 * * *", "Antarctica/Troll", date(2027, 3, 28), ["03:30", "04:30"]),
        ("15,40 2 * * *", "Australia/Lord_Howe", date(2027, 10, 3), ["02:40", "02:45"]),
    ],
)
def test_a_skipped_time_does_not_hide_an_earlier_run_after_the_gap(
    cron: str, time_zone: str, day: date, expected: list[str]
) -> None:
    found = within(cron, time_zone, day)
    assert [f"{moment.astimezone(ZoneInfo(time_zone)):%H:%M}" for moment in found] == expected


def clock_changes(zone: ZoneInfo, after: datetime, count: int) -> list[datetime]:
    """Return up to `count` clock changes within three years, in UTC."""
    changes: list[datetime] = []
    for before, day in pairwise(after + timedelta(days=n) for n in range(3 * 366)):
        if before.astimezone(zone).utcoffset() != day.astimezone(zone).utcoffset():
            quarters = [before + n * timedelta(minutes=15) for n in range(97)]
            offsets = [quarter.astimezone(zone).utcoffset() for quarter in quarters]
            changes += [quarters[n] for n in range(1, 97) if offsets[n] != offsets[n - 1]]
        if len(changes) >= count:
            break
    return changes[:count]


@pytest.mark.slow
def test_each_fixed_time_runs_once_around_every_clock_change_of_every_zone() -> None:
    """Zones that share a change and its offsets behave alike: one of them is tested."""
    distinct = {}
    for name in sorted(available_timezones()):
        zone = ZoneInfo(name)
        for change in clock_changes(zone, NEW_YEAR, 2):
            before = change - timedelta(seconds=1)
            distinct[change, before.astimezone(zone).utcoffset(), change.astimezone(zone).utcoffset()] = name
    assert len(distinct) > 20
    for (change, *_), name in distinct.items():
        zone, start, end = ZoneInfo(name), change - timedelta(days=2), change + timedelta(days=2)
        days = [(start + timedelta(days=n)).date() for n in range(-1, 6)]
        near = change.astimezone(zone)
        for quarters in range(-14, 15):
            wall = near + quarters * timedelta(minutes=15)  # arithmetic on the wall clock
            expected = [
                datetime(day.year, day.month, day.day, wall.hour, wall.minute, tzinfo=zone).astimezone(UTC)
                for day in days
            ]
            found = list(takewhile(end.__ge__, times(f"{wall.minute} {wall.hour} * * *", name, start)))
            assert found == [moment for moment in expected if start < moment <= end], (name, wall)


def test_the_29th_of_february_comes_in_leap_years() -> None:
    found = [moment.year for moment in islice(times("0 0 29 2 *"), 3)]
    assert found == [2028, 2032, 2036]


def test_the_31st_comes_where_there_is_one() -> None:
    assert [moment.month for moment in islice(times("0 0 31 * *"), 7)] == [1, 3, 5, 7, 8, 10, 12]


@pytest.mark.parametrize("cron", ["0 0 30 2 *", "0 0 31 4,6,9,11 *"])
def test_a_date_that_never_comes_is_never(cron: str) -> None:
    assert next_time(cron, "UTC", NEW_YEAR) is None


SUNDAY = 6  # by Python's count
WEEKDAYS = {
    "0": {SUNDAY},
    "7": {SUNDAY},
    "sun": {SUNDAY},
    "SUN": {SUNDAY},
    "1": {0},
    "mon": {0},
    "6": {5},
    "1-5": {0, 1, 2, 3, 4},
    "mon-fri": {0, 1, 2, 3, 4},
    "5-7": {4, 5, 6},
    "0-2": {6, 0, 1},
    "6-1": {5, 6, 0},
    "fri-sun": {4, 5, 6},
    "sat,sun": {5, 6},
    "0,7": {6},
    "0-7": set(range(7)),
    "1,3-4": {0, 2, 3},
    "*": set(range(7)),
    "*/2": {6, 1, 3, 5},
    "*/3": {6, 2, 5},
}


@pytest.mark.parametrize(("field", "days"), WEEKDAYS.items(), ids=WEEKDAYS)
def test_days_of_the_week_are_crons(field: str, days: set[int]) -> None:
    found = {moment.weekday() for moment in islice(times(f"0 12 * * {field}"), 14)}
    assert {calendar.day_name[day] for day in found} == {calendar.day_name[day] for day in days}


@pytest.mark.parametrize(
    ("cron", "named"),
    [
        ("", "0 fields"),
        ("0 0 * *", "4 fields"),
        ("0 0 * * * *", "6 fields"),
        ("0 0 1 * 1", "both"),
        ("0 0 * * 8", "8"),
        ("0 0 * * someday", "someday"),
        ("60 0 * * *", "60"),
        ("0 24 * * *", "24"),
        ("0 0 0 * *", "0"),
        ("0 0 * 13 *", "13"),
        ("x 0 * * *", "x"),
        ("5-1 0 * * *", "range"),
    ],
)
def test_what_cant_be_read_is_refused_with_its_field(cron: str, named: str) -> None:
    with pytest.raises(ValueError, match=r".+") as raised:
        next_time(cron, "UTC", NEW_YEAR)
    assert named in str(raised.value)


@given(st.datetimes(datetime(2020, 1, 1), datetime(2037, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 - hypothesis adds it
def test_the_next_time_is_later_and_stays_the_same_until_then(moment: datetime) -> None:
    following = next_time("30 3 * * *", BERLIN, moment)
    assert following is not None
    assert timedelta(0) < following - moment <= timedelta(hours=25)
    assert next_time("30 3 * * *", BERLIN, moment + (following - moment) / 2) == following


@given(st.uuids(), st.integers(1, 86_400))
def test_a_tenants_delay_stays_the_same_and_within_the_window(tenant_id: UUID, most: int) -> None:
    delay = tenant_jitter(tenant_id, "sweep", most)
    assert timedelta(0) <= delay < timedelta(seconds=most)
    assert delay == tenant_jitter(tenant_id, "sweep", most)
    assert tenant_jitter(tenant_id, "sweep", 0) == timedelta(0)


def test_tenants_are_spread_over_the_window() -> None:
    delays = [tenant_jitter(UUID(int=n), "sweep", 3600).total_seconds() for n in range(200)]
    assert len(set(delays)) > 150
    assert min(delays) < 360
    assert max(delays) > 3240
