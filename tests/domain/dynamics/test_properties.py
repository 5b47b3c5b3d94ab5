"""Properties that hold for every model of forgetting, whatever its formula."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.domain.dynamics.memory_decay import LOOK_AHEAD_TICKS
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import DUE_MARGIN_SECONDS, Event, Row, State
from tests.domain.dynamics.batches import (
    BATCHES,
    GAPS,
    SHARES,
    START,
    TICKING,
    YEAR_SECONDS,
    assert_same,
    batch,
    each_model,
    many,
)
from tests.examples import draw

SLACK_SECONDS = 2e-6  # rounding error of moments
THRESHOLDS = st.sampled_from([0.3, 0.15, 0.05]) | st.floats(1e-6, 0.999)
each = each_model()
examples = draw(8)


def is_sane(state: State) -> bool:
    return all(np.isfinite(getattr(state, field.name)).all() for field in fields(Row))


@each
@examples
@given(rows=BATCHES, first=GAPS, second=GAPS)
def test_strength_does_not_depend_on_stops_on_the_way(
    dynamics: Dynamics, rows: list[tuple[float, ...]], first: float, second: float
) -> None:
    state = batch(dynamics, rows)
    stop = float(state.anchored_at.max()) + first
    stopped = dynamics.advance(state, stop)
    direct, by_stops = dynamics.strength(state, stop + second), dynamics.strength(stopped, stop + second)
    np.testing.assert_allclose(by_stops, direct, rtol=1e-9, atol=1e-12)


@each
@examples
@given(rows=BATCHES, gap=GAPS, strength=SHARES)
def test_the_same_maintenance_again_changes_nothing(
    dynamics: Dynamics, rows: list[tuple[float, ...]], gap: float, strength: float
) -> None:
    state = batch(dynamics, rows)
    now = float(state.anchored_at.max()) + gap
    once = dynamics.advance(state, now)
    assert_same(dynamics.advance(once, now), once)
    lifted = dynamics.at_strength(state, now, strength)
    np.testing.assert_allclose(dynamics.strength(lifted, now)[state.multiplier > 0], strength, rtol=1e-8, atol=1e-9)


@each
@examples
@given(rows=BATCHES, gaps=st.lists(GAPS, min_size=2, max_size=6))
def test_strength_stays_within_bounds_and_never_rises_between_uses(
    dynamics: Dynamics, rows: list[tuple[float, ...]], gaps: list[float]
) -> None:
    state = batch(dynamics, rows)
    moments = START - YEAR_SECONDS + np.cumsum([0.0, YEAR_SECONDS, *gaps])
    strengths = np.array([dynamics.strength(state, moment) for moment in moments])
    assert np.isfinite(strengths).all()
    assert strengths.min() >= 0
    assert strengths.max() <= 1
    assert (np.diff(strengths, axis=0) <= 1e-12).all()
    assert (dynamics.score(state, moments[-1]) >= strengths[-1]).all()


@each
@examples
@given(rows=BATCHES, gap=GAPS)
def test_a_moment_before_the_anchor_is_the_anchor(
    dynamics: Dynamics, rows: list[tuple[float, ...]], gap: float
) -> None:
    state = batch(dynamics, rows)
    np.testing.assert_array_equal(
        dynamics.strength(state, state.anchored_at - gap), dynamics.strength(state, state.anchored_at)
    )


@each
@examples
@given(rows=BATCHES, threshold=THRESHOLDS, shares=st.lists(st.floats(0, 1), min_size=4, max_size=4))
def test_due_is_no_more_than_a_millisecond_late(
    dynamics: Dynamics, rows: list[tuple[float, ...]], threshold: float, shares: list[float]
) -> None:
    state = batch(dynamics, rows)
    due = dynamics.due_at(state, threshold)
    assert (due >= state.anchored_at).all()
    already = dynamics.strength(state, state.anchored_at) < threshold
    np.testing.assert_array_equal(due[already], state.anchored_at[already])
    # inf means never: test it within ten years
    last = np.where(np.isfinite(due), due - DUE_MARGIN_SECONDS - SLACK_SECONDS, START + 10 * YEAR_SECONDS)
    for share in (*shares, 1.0):
        moment = np.maximum(state.anchored_at + share * (last - state.anchored_at), state.anchored_at)
        above = dynamics.strength(state, moment) >= threshold * (1 - 1e-12)
        assert (above | already).all()


@each
@examples
@given(rows=BATCHES, threshold=THRESHOLDS)
def test_due_is_when_it_happens(dynamics: Dynamics, rows: list[tuple[float, ...]], threshold: float) -> None:
    state = batch(dynamics, rows)
    due = dynamics.due_at(state, threshold)
    tick = dynamics.parameters.tick_seconds if dynamics in TICKING.values() else 0.0
    known = np.isfinite(due) & ((tick == 0) | (due - state.anchored_at < LOOK_AHEAD_TICKS * tick))
    # almost equal rates stay almost equal after rounding
    at_due = dynamics.strength(state, np.where(known, due + SLACK_SECONDS, START))
    assert (at_due[known] < threshold * (1 + 1e-12)).all()


@each
@examples
@given(rows=BATCHES, gap=GAPS, late=GAPS, source=st.sampled_from(["direct", "associate", "test"]), boost=st.booleans())
def test_an_event_never_weakens_and_keeps_the_state_sane(
    dynamics: Dynamics, rows: list[tuple[float, ...]], gap: float, late: float, source: str, boost: bool
) -> None:
    state = batch(dynamics, rows)
    now = float(state.anchored_at.max()) + gap
    event = Event(at=now - late, now=now, source=source, boost=boost)  # type: ignore[arg-type]  # of three names
    after = dynamics.reinforce(state, event)
    assert is_sane(after)
    assert (after.anchored_at <= now + 1e-6).all(), "apart from rounding: ticks count from the creation"
    assert (after.accessed_at <= np.maximum(state.accessed_at, now)).all()
    # a fresh curve may be steeper than an old one, so at later moments the use may show as less strength
    is_late = (source == "test") | (event.at < state.accessed_at)
    moment = np.where(is_late, now, np.maximum(event.at, state.anchored_at))
    assert (dynamics.strength(after, moment) >= dynamics.strength(state, moment) * (1 - 1e-9)).all()
    np.testing.assert_array_equal(after.access_count, state.access_count + (source == "direct"))


@each
def test_a_use_that_came_late_is_counted_and_nothing_else(dynamics: Dynamics) -> None:
    state = many(dynamics, 500)
    state = replace(state, access_count=np.maximum(state.access_count, 1))
    now = float(state.anchored_at.max()) + 1000
    after = dynamics.reinforce(state, Event(at=state.accessed_at - 1, now=now))
    np.testing.assert_array_equal(after.access_count, state.access_count + 1)
    np.testing.assert_array_equal(after.accessed_at, state.accessed_at)
    np.testing.assert_array_equal(after.multiplier, state.multiplier)
    if dynamics.name in {"spec", "memory_decay"}:  # in the other models the count is a factor of the strength itself
        np.testing.assert_allclose(dynamics.strength(after, now), dynamics.strength(state, now), rtol=1e-9, atol=1e-80)


@each
def test_a_new_memory_has_full_strength_and_a_use_keeps_it(dynamics: Dynamics) -> None:
    state = batch(dynamics, [(0, 0.5, 1, 1, 0, 0, 0, 1, 1, 0)])
    assert dynamics.strength(state, START) == [1]
    assert dynamics.strength(dynamics.reinforce(state, Event(at=START, now=START)), START) == [1]


@each
def test_ten_thousand_memories_are_worked_out_as_each_alone(dynamics: Dynamics) -> None:
    state = many(dynamics, 10_000)
    now = START + YEAR_SECONDS
    strength, due = dynamics.strength(state, now), dynamics.due_at(state, 0.15)
    for row in (0, 17, 4_321, 9_999):
        alone = Row(**{field.name: getattr(state, field.name)[row : row + 1] for field in fields(Row)})
        np.testing.assert_allclose(dynamics.strength(alone, now), strength[row], rtol=1e-12)
        np.testing.assert_allclose(dynamics.due_at(alone, 0.15), due[row], atol=1e-4)


@each
def test_no_memories_are_a_batch_too(dynamics: Dynamics) -> None:
    state = many(dynamics, 10)
    none = Row(**{field.name: getattr(state, field.name)[:0] for field in fields(Row)})
    used = dynamics.reinforce(dynamics.advance(none, START), Event(at=START, now=START))
    assert dynamics.strength(used, START).shape == dynamics.due_at(used, 0.3).shape == (0,)
