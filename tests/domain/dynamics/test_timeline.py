"""Policies over time: which one holds when, and how memories from older policies are brought to it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.profiles import rebase
from app.domain.dynamics.state import DAY_SECONDS, Event, Row, State, take
from app.domain.dynamics.timeline import DEFAULT, Era, Timeline
from app.domain.policy.policy import Forgetting, Policy
from tests.domain.dynamics.batches import ALL, START, YEAR_SECONDS, many
from tests.examples import draw

POLICIES = {
    name: Policy(forgetting=Forgetting(profile=profile, parameters=parameters))
    for name, profile, parameters in (
        ("spec", "spec", {}),
        ("spec product", "spec", {"law": "product"}),
        ("spec hasty", "spec", {"base_per_day": 1.0}),
        ("mnemex", "mnemex", {}),
        ("mnemex slow", "mnemex", {"half_life_days": 30}),
        ("cmm", "cmm", {}),
        ("memory_decay", "memory_decay", {}),
        ("memory_decay by the hour", "memory_decay", {"tick_seconds": 3600}),
    )
}
NAMES = st.sampled_from(sorted(POLICIES))
GAPS = st.sampled_from([0.0, DAY_SECONDS]) | st.integers(0, 60 * int(DAY_SECONDS)).map(float)  # sums are exact


def timeline(*eras: tuple[int, float]) -> Timeline:
    return Timeline([Era(version, since, Policy()) for version, since in eras])


def held(times: Timeline, *moments: float) -> list[int]:
    return [times.at(moment).version for moment in moments]


def test_before_the_first_policy_the_default_one_holds() -> None:
    assert held(timeline(), -1e9, 0, 1e12) == [0, 0, 0]
    assert held(timeline((1, 100)), 99.999, 100, 101) == [0, 1, 1]
    assert timeline().at(0) == DEFAULT


def test_a_policy_of_the_future_waits() -> None:
    assert held(timeline((1, 100), (2, 500)), 499, 500) == [1, 2]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_policy_that_a_later_one_forestalls_never_holds(order: tuple[int, ...]) -> None:
    eras = [(1, 100.0), (2, 500.0), (3, 200.0)]
    times = timeline(*(eras[place] for place in order))
    assert held(times, 150, 200, 499, 500, 1e12) == [1, 3, 3, 3, 3]


def test_of_two_that_begin_together_the_later_version_holds() -> None:
    assert held(timeline((1, 100), (2, 100)), 99, 100) == [0, 2]


# --- Memories left under an older policy ---


def eras_of(names: list[str], gaps: list[float]) -> Timeline:
    """Return a timeline with these policies, from `START` on."""
    starts = START + np.cumsum([0.0, *gaps])
    return Timeline(
        [Era(n, start, POLICIES[name]) for n, (name, start) in enumerate(zip(names, starts, strict=False), 1)]
    )


def some(rows: int = 60) -> State:
    """Return states under the first policy, anchored while it holds or later."""
    return many(ALL["spec"], rows)


def assert_near(found: Floats, wanted: Floats) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def assert_alike(times: Timeline, one: State, other: State, now: float) -> None:
    """Assert that both states fade alike from now on, and have the same uses."""
    model = times.at(now).dynamics
    for later in (0.0, 3 * DAY_SECONDS, YEAR_SECONDS):
        assert_near(model.strength(one, now + later), model.strength(other, now + later))
    for name in ("access_count", "accessed_at", "created_at", "salience"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


examples = draw(13)
changes = given(names=st.lists(NAMES, min_size=3, max_size=3), gaps=st.lists(GAPS, min_size=3, max_size=3))


@examples
@changes
def test_it_is_what_stepping_from_policy_to_policy_by_hand_gives(names: list[str], gaps: list[float]) -> None:
    gaps = [gap + 1 for gap in gaps]  # of two that begin together, one never holds
    times = eras_of(names, gaps)
    first, second, third = (POLICIES[name].model for name in names)
    state = some()
    by_hand = rebase(state, START + gaps[0], first, second)
    by_hand = rebase(by_hand, START + gaps[0] + gaps[1], second, third)
    now = START + sum(gaps)
    brought = times.advance_to(state, np.ones(60, np.int64), now)
    for field in fields(Row):
        np.testing.assert_array_equal(getattr(brought, field.name), getattr(by_hand, field.name))


@examples
@changes
def test_strength_is_the_same_on_both_sides_of_a_change(names: list[str], gaps: list[float]) -> None:
    times = eras_of(names, [gap + 1 for gap in gaps])
    change = START + gaps[0] + 1
    state, ones = some(), np.ones(60, np.int64)
    known = (state.anchored_at < change) & (state.multiplier > 0)  # mnemex has no strength for a multiplier of 0
    before = POLICIES[names[0]].model.strength(state, change)
    after = POLICIES[names[1]].model.strength(times.advance_to(state, ones, change), change)
    np.testing.assert_allclose(after[known], before[known], rtol=1e-8, atol=1e-9)


@examples
@changes
def test_it_does_not_matter_how_often_they_are_brought(names: list[str], gaps: list[float]) -> None:
    times = eras_of(names, gaps)
    state, versions = some(), np.ones(60, np.int64)
    end = START + sum(gaps) + 5 * DAY_SECONDS
    at_once = times.advance_to(state, versions, end)
    for stop in START + np.array([0.2, 0.5, 0.9]) * sum(gaps):
        state = times.advance_to(state, versions, stop)
        versions = np.maximum(versions, times.at(stop).version)
    assert_alike(times, times.advance_to(state, versions, end), at_once, end)
    again = times.advance_to(at_once, np.full(60, times.at(end).version), end)
    for field in fields(Row):
        np.testing.assert_array_equal(getattr(again, field.name), getattr(at_once, field.name))


@examples
@changes
def test_memories_of_several_versions_are_brought_as_each_alone(names: list[str], gaps: list[float]) -> None:
    times = eras_of(names, gaps)
    state, now = some(), START + sum(gaps)
    versions = np.arange(60) % 4
    together = times.advance_to(state, versions, now)
    for version in range(4):
        rows = np.flatnonzero(versions == version)
        alone = times.advance_to(take(state, rows), versions[rows], now)
        for field in fields(Row):
            np.testing.assert_array_equal(getattr(alone, field.name), getattr(take(together, rows), field.name))


@examples
@changes
def test_a_use_in_between_counts_under_the_policy_of_its_day(names: list[str], gaps: list[float]) -> None:
    times = eras_of(names, [gap + DAY_SECONDS for gap in gaps])
    used_at = START + gaps[0] + 1.5 * DAY_SECONDS
    state, ones = some(), np.ones(60, np.int64)
    second = times.at(used_at)
    model = second.dynamics
    event = Event(at=used_at, now=used_at)
    used = model.reinforce(times.advance_to(state, ones, used_at), event)
    end = START + sum(gaps) + 30 * DAY_SECONDS
    found = times.advance_to(used, np.full(60, second.version), end)
    np.testing.assert_array_equal(found.access_count, state.access_count + 1)
    expected: Any = used
    for era in [each for version in (2, 3) if (each := _era(times, version, names, gaps)).version > second.version]:
        expected = rebase(expected, era.since, model, era.dynamics)
        model = era.dynamics
    assert_alike(times, found, expected, end)


def _era(times: Timeline, version: int, names: list[str], gaps: list[float]) -> Era:
    """Return the era of a version, found by the moment at which it begins."""
    since = START + sum(gap + DAY_SECONDS for gap in gaps[: version - 1])
    era = times.at(since)
    assert (era.version, era.policy) == (version, POLICIES[names[version - 1]])
    return era


def test_a_version_that_never_held_counts_as_the_one_before() -> None:
    times = Timeline(
        [
            Era(1, START, POLICIES["spec"]),
            Era(2, START + 10 * DAY_SECONDS, POLICIES["cmm"]),
            Era(3, START + 5 * DAY_SECONDS, POLICIES["mnemex"]),
        ]
    )
    state, now = some(), START + 20 * DAY_SECONDS
    ones = np.ones(60, np.int64)
    for field in fields(Row):
        found = getattr(times.advance_to(state, 2 * ones, now), field.name)
        np.testing.assert_array_equal(found, getattr(times.advance_to(state, ones, now), field.name))


def test_what_was_left_under_a_later_policy_stays_as_it_is() -> None:
    """Evaluating at an earlier moment doesn't undo later changes."""
    times = eras_of(["spec", "cmm", "mnemex"], [DAY_SECONDS, DAY_SECONDS, DAY_SECONDS])
    state = some()
    found = times.advance_to(state, np.full(60, 3), START)
    for field in fields(Row):
        np.testing.assert_array_equal(getattr(found, field.name), getattr(state, field.name))
