"""Sizes of the turns by which tenants share a stage."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.domain.turns import SHARED_SECONDS, TURN_SECONDS, TurnSize

TURNS = 60


def settled_size(size: TurnSize, fixed_seconds: float, seconds_each: float) -> int:
    """Take turns of the sizes that it says, each with these costs, and return the last size."""
    for _ in range(TURNS):
        size.record(size.memories, fixed_seconds + size.memories * seconds_each)
    return size.memories


@given(
    st.floats(0, TURN_SECONDS / 2),
    st.floats(1e-6, TURN_SECONDS / 20),
    st.integers(1, 10_000),
)
def test_turns_settle_at_their_time_whatever_a_memory_costs(fixed: float, each: float, first: int) -> None:
    memories = settled_size(TurnSize(least=1, first=first), fixed, each)
    seconds = fixed + memories * each
    assert TURN_SECONDS / 2 < seconds < 1.5 * TURN_SECONDS


@given(st.integers(1, 50), st.lists(st.tuples(st.integers(1, 5000), st.floats(1e-6, 100)), max_size=20))
def test_no_turn_is_smaller_than_the_least(least: int, turns: list[tuple[int, float]]) -> None:
    size = TurnSize(least=least, first=1)
    for memories, seconds in turns:
        size.record(memories, seconds)
        assert size.memories >= least


def test_a_model_of_a_memory_a_second_gets_the_least() -> None:
    assert settled_size(TurnSize(least=4, first=100), 0, 1) == 4


def test_a_neighbours_single_memories_say_nothing_about_the_speed() -> None:
    size = TurnSize(least=16, first=200)
    for _ in range(TURNS):
        size.record(1, 10 * TURN_SECONDS)
    assert size.memories == 200


def test_a_single_very_fast_turn_doesnt_make_the_next_one_large() -> None:
    size = TurnSize(least=16, first=200)
    size.record(200, 0)
    assert size.memories < 400


def test_turns_are_shared_for_a_while_after_tenants_met() -> None:
    size = TurnSize(least=1, first=1)
    assert not size.is_shared(0)
    size.note_sharing(100)
    assert size.is_shared(100)
    assert size.is_shared(99 + SHARED_SECONDS)
    assert not size.is_shared(100 + SHARED_SECONDS)
    size.note_sharing(100 + SHARED_SECONDS)
    assert size.is_shared(100 + SHARED_SECONDS)
