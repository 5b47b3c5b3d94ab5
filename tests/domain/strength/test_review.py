"""Reviews against seed 004 §4 and the danger zone of seed 001."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.strength.review import (
    ReviewParameters,
    blend_share,
    danger_priority,
    easiness,
    interleave,
    next_interval_days,
    preselect_queue,
    review_queue,
)


@pytest.mark.parametrize(
    ("importance", "intervals"), [(0.5, [1, 6, 13, 28, 60]), (0.9, [1, 6, 17, 48, 136]), (0.0, [1, 6, 8, 10, 13])]
)
def test_intervals_grow_by_the_easiness(importance: float, intervals: list[int]) -> None:
    """Seed 004 §4.1, interval progression example."""
    interval, found = np.array([0.0]), []
    for _ in intervals:
        interval = next_interval_days(ReviewParameters(), interval, np.array([importance]))
        found.append(int(interval[0]))
    assert found == intervals


def test_easiness_goes_from_1_3_to_3() -> None:
    """Seed 004 §4.1."""
    np.testing.assert_allclose(easiness(ReviewParameters(), np.array([0, 0.5, 0.9, 1])), [1.3, 2.15, 2.83, 3.0])


def test_halves_are_rounded_up() -> None:
    assert (
        next_interval_days(ReviewParameters(easiness_min=2.5, easiness_max=2.5), np.array([7.0]), np.array([0.5]))[0]
        == 18
    )


@given(interval=st.floats(0, 36_500), importance=st.floats(0, 1))
def test_a_success_never_brings_the_next_review_nearer(interval: float, importance: float) -> None:
    following = next_interval_days(ReviewParameters(), np.array([interval]), np.array([importance]))[0]
    assert min(math.floor(interval), 36_500) <= following <= 36_500
    assert following >= 1


def test_the_queue_is_by_importance_and_days_overdue() -> None:
    """Seed 004 §4.2: .6 · importance + .4 · days overdue, due memories only, at most 20."""
    importance, overdue = np.array([0.9, 0.1, 0.5, 1.0]), np.array([0.0, 2.0, 0.5, -0.1])
    assert review_queue(ReviewParameters(), importance, overdue).tolist() == [1, 0, 2]
    assert review_queue(ReviewParameters(), np.zeros(100), np.arange(100.0)).tolist() == list(range(99, 79, -1))


@given(
    rows=st.lists(st.tuples(st.floats(0, 1), st.integers(-10, 40).map(lambda n: n / 4)), max_size=40),
    limit=st.integers(1, 8),
    weight=st.sampled_from([0.0, 0.4, 1.0]),
)
def test_only_those_that_cannot_make_it_into_the_session_are_passed_over(
    rows: list[tuple[float, float]], limit: int, weight: float
) -> None:
    parameters = ReviewParameters(session_limit=limit, overdue_weight=weight)
    importance, overdue = (np.array([row[column] for row in rows], np.float64) for column in (0, 1))
    places = preselect_queue(parameters, overdue)
    found = places[review_queue(parameters, importance[places], overdue[places])]
    assert found.tolist() == review_queue(parameters, importance, overdue).tolist()


def test_the_danger_zone_is_an_inverted_parabola() -> None:
    """Seed 001, review priority: 1 in the middle, 0 at .15 and .35 and outside."""
    found = danger_priority(ReviewParameters(), np.array([0.0, 0.15, 0.20, 0.25, 0.30, 0.35, 1.0, 3.2]))
    np.testing.assert_allclose(found, [0, 0, 0.75, 1, 0.75, 0, 0, 0], atol=1e-12)


@pytest.mark.parametrize(
    ("share", "limit", "order"),
    [
        (0.3, 5, ["p0", "p1", "r0", "p2", "p3"]),
        (0.3, 10, ["p0", "p1", "r0", "p2", "p3", "r1", "p4", "p5", "p6", "r2"]),
        (0.5, 4, ["p0", "r0", "p1", "r1"]),
        (1.0, 5, ["r0", "r1", "r2", "p0", "p1"]),
        (0.0, 3, ["p0", "p1", "p2"]),
        (0.1, 5, ["p0", "p1", "p2", "p3", "p4"]),
    ],
)
def test_a_share_of_the_places_is_for_review(share: float, limit: int, order: list[str]) -> None:
    """Seed 001, blended results: two by rank, one for review, and so on; the first five of seven and three."""
    names = [f"p{place}" for place in range(7)] + ["r2", "r0", "r1"]
    found = interleave(len(names), [8, 9, 7], share, limit)
    assert [names[place] for place in found] == order


def test_what_its_rank_has_shown_does_not_come_again() -> None:
    assert interleave(6, [1, 5], 0.5, 4) == [0, 1, 2, 5]
    assert interleave(3, [2], 1.0, 10) == [2, 0, 1]
    assert interleave(0, [], 0.5, 10) == []


@given(
    ranked=st.integers(0, 30),
    share=st.floats(0, 1),
    limit=st.integers(1, 40),
    wanted=st.lists(st.integers(0, 29), unique=True),
)
def test_blending_fills_every_place_once(ranked: int, share: float, limit: int, wanted: list[int]) -> None:
    wanting = [place for place in wanted if place < ranked]
    found = interleave(ranked, wanting, share, limit)
    assert len(found) == len(set(found)) == min(ranked, limit)
    others = [place for place in found if place not in wanting]
    assert others == sorted(others)
    places = math.floor(len(found) * share + 1e-9)
    assert len(set(found) & set(wanting)) >= min(places, len(wanting))


def test_what_is_asked_for_goes_before_what_the_profile_does() -> None:
    assert [blend_share(None, ReviewParameters(), name) for name in ("spec", "mnemex")] == [0, 0.3]
    assert [blend_share(0.5, ReviewParameters(), "spec"), blend_share(0.0, ReviewParameters(), "mnemex")] == [0.5, 0]
    set_by_policy = ReviewParameters(blend=0.2)
    assert [blend_share(None, set_by_policy, name) for name in ("spec", "mnemex")] == [0.2, 0.2]
    assert [blend_share(0.5, set_by_policy, "spec"), blend_share(0.0, set_by_policy, "spec")] == [0.5, 0]
    assert blend_share(None, ReviewParameters(blend=0.0), "mnemex") == 0


@pytest.mark.parametrize(
    "wrong",
    [{"first_interval_days": 7}, {"easiness_min": 3.5}, {"danger_from": 0.5}, {"session_limit": 0}, {"no_such": 1}],
)
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ReviewParameters(**wrong)
