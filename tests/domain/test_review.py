"""Reviews against seed 004 §4 and the danger zone of seed 001."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.review import Review, danger_priority, easiness, next_interval_days, queue


@pytest.mark.parametrize(
    ("importance", "intervals"), [(0.5, [1, 6, 13, 28, 60]), (0.9, [1, 6, 17, 48, 136]), (0.0, [1, 6, 8, 10, 13])]
)
def test_intervals_grow_by_the_easiness(importance: float, intervals: list[int]) -> None:
    """Seed 004 §4.1, interval progression example."""
    interval, found = np.array([0.0]), []
    for _ in intervals:
        interval = next_interval_days(Review(), interval, np.array([importance]))
        found.append(int(interval[0]))
    assert found == intervals


def test_easiness_goes_from_1_3_to_3() -> None:
    """Seed 004 §4.1."""
    np.testing.assert_allclose(easiness(Review(), np.array([0, 0.5, 0.9, 1])), [1.3, 2.15, 2.83, 3.0])


def test_halves_are_rounded_up() -> None:
    assert next_interval_days(Review(easiness_min=2.5, easiness_max=2.5), np.array([7.0]), np.array([0.5]))[0] == 18


@settings(deadline=None)
@given(interval=st.floats(0, 36_500), importance=st.floats(0, 1))
def test_a_success_never_brings_the_next_review_nearer(interval: float, importance: float) -> None:
    following = next_interval_days(Review(), np.array([interval]), np.array([importance]))[0]
    assert min(math.floor(interval), 36_500) <= following <= 36_500
    assert following >= 1


def test_the_queue_is_by_importance_and_days_overdue() -> None:
    """Seed 004 §4.2: .6 · importance + .4 · days overdue, due ones alone, at most 20."""
    importance, overdue = np.array([0.9, 0.1, 0.5, 1.0]), np.array([0.0, 2.0, 0.5, -0.1])
    assert queue(Review(), importance, overdue).tolist() == [1, 0, 2]
    assert queue(Review(), np.zeros(100), np.arange(100.0)).tolist() == list(range(99, 79, -1))


def test_the_danger_zone_is_an_inverted_parabola() -> None:
    """Seed 001, review priority: 1 in the middle, 0 at .15 and .35 and outside."""
    found = danger_priority(Review(), np.array([0.0, 0.15, 0.20, 0.25, 0.30, 0.35, 1.0, 3.2]))
    np.testing.assert_allclose(found, [0, 0, 0.75, 1, 0.75, 0, 0, 0], atol=1e-12)


@pytest.mark.parametrize(
    "wrong",
    [{"first_interval_days": 7}, {"easiness_min": 3.5}, {"danger_from": 0.5}, {"session_limit": 0}, {"no_such": 1}],
)
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Review(**wrong)
