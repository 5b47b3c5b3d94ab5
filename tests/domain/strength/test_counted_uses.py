"""Reinforcement by many uses: any split into batches gives the result of applying them one by one."""

from __future__ import annotations

import itertools
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.dynamics.profiles import PROFILES, profile
from app.domain.dynamics.state import Row, State, new
from app.domain.strength.counted_uses import OrderedUses, UseTimes, apply_uses, effective_uses

NOW = 1_760_000_000.0
DAY = 86_400.0
REFRACTORY = 60.0

# Row, session, seconds before now, boost.
TOLD = st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 400).map(lambda n: n * 20.0), st.booleans())


def uses_of(reported: list[tuple[int, int, float, bool]]) -> OrderedUses:
    rows, sessions, ages, boost = ([one[n] for one in reported] for n in range(4))
    numbers = np.arange(len(reported), dtype=np.float64)
    return OrderedUses(
        rows=np.array(rows, np.intp),
        sessions=np.array(sessions, np.int64),
        at=NOW - np.array(ages, np.float64),
        boost=np.array(boost, np.bool_),
        place=numbers % 3,
        margin=(numbers % 5) / 5,
        lexical=numbers % 2 == 0,
    )


def shelf() -> State:
    state = new(np.array([NOW - 50 * DAY, NOW - 3 * DAY, NOW - 3600.0]), salience=np.array([0.1, 0.5, 0.9]))
    return replace(state, accessed_at=state.created_at + 600, access_count=np.array([1.0, 0.0, 4.0]))


def apply(name: str, state: State, uses: OrderedUses, known: UseTimes) -> tuple[State, UseTimes]:
    """Apply the uses of a batch that count; return the state and the known uses."""
    counting = uses.only(effective_uses(uses, known, REFRACTORY))
    done = apply_uses(profile(name), state, counting, NOW)
    joined = (np.concatenate([getattr(known, one.name), getattr(counting, one.name)]) for one in fields(UseTimes))
    return done.state, UseTimes(*joined)


def nothing() -> UseTimes:
    return UseTimes(np.empty(0, np.intp), np.empty(0, np.int64), np.empty(0))


@pytest.mark.parametrize("name", PROFILES)
@given(st.lists(TOLD, min_size=1, max_size=12), st.sets(st.integers(1, 11)))
def test_any_split_into_batches_gives_the_same(
    name: str, reported: list[tuple[int, int, float, bool]], cuts: set[int]
) -> None:
    uses = uses_of(reported)
    whole, known = apply(name, shelf(), uses, nothing())
    state, so_far = shelf(), nothing()
    edges = [0, *sorted(cut for cut in cuts if cut < len(reported)), len(reported)]
    for start, end in itertools.pairwise(edges):
        state, so_far = apply(name, state, uses.only(np.arange(start, end)), so_far)
    for one in fields(Row):
        np.testing.assert_array_equal(getattr(state, one.name), getattr(whole, one.name), one.name)
    np.testing.assert_array_equal(so_far.at, known.at)


@pytest.mark.parametrize("name", PROFILES)
def test_strengths_before_and_after_are_of_the_moment_of_use(name: str) -> None:
    dynamics, state = profile(name), shelf()
    uses = uses_of([(0, 0, 2 * DAY, False), (1, 0, 5.0, False), (0, 0, DAY, False), (0, 0, 9 * DAY, False)])
    done = apply_uses(dynamics, state, uses, NOW)
    assert done.late.tolist() == [False, False, False, True]
    assert done.before[0] == dynamics.strength(state, uses.at[0])[0]
    assert done.before[1] == dynamics.strength(state, uses.at[1])[1]
    assert (done.after >= done.before).all()
    assert done.state.access_count.tolist() == [4, 1, 4]
    assert state.access_count.tolist() == [1, 0, 4], "the input is not modified"


def test_without_uses_nothing_changes() -> None:
    done = apply_uses(profile("spec"), shelf(), uses_of([]), NOW)
    np.testing.assert_array_equal(done.state.level, shelf().level)
    assert effective_uses(uses_of([]), nothing(), REFRACTORY).size == 0


def test_who_was_told_first_counts_and_the_others_nearby_do_not() -> None:
    reported = [
        (0, 0, 1000.0, False),
        (0, 0, 941.0, False),
        (0, 0, 940.0, False),
        (0, 1, 1000.0, False),
        (1, 0, 1000.0, False),
    ]
    uses = uses_of([*reported, (0, 0, 1059.0, False), (0, 0, 1060.0, False)])
    assert effective_uses(uses, nothing(), REFRACTORY).tolist() == [0, 2, 3, 4, 6]
    known = UseTimes(np.array([0]), np.array([0]), np.array([NOW - 970.0]))
    assert effective_uses(uses, known, REFRACTORY).tolist() == [3, 4, 5]
    assert effective_uses(uses, known, 0).tolist() == list(range(7))
