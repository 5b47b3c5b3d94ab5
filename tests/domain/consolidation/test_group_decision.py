"""The decision about each group: the table of actions, cohesion, and the memories that are always preserved."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.consolidation.group_decision import (
    NO_THREAD,
    GroupVerdict,
    Members,
    approve_verdict,
    decide_group,
    is_sequence,
)
from app.domain.consolidation.parameters import Consolidation

RULES = Consolidation()


def members(*importance: float, **columns: Any) -> Members:
    """Return memories of 20 days ago, at irregular moments of one day on which there are others."""
    count = len(importance)
    made = Members(
        importance=np.array(importance),
        age_days=np.full(count, 20.0),
        said_at=np.array([2.0**place for place in range(count)]),
        threads=np.full(count, NO_THREAD),
        is_kept=np.zeros(count, np.bool_),
        is_protected=np.zeros(count, np.bool_),
        days=np.zeros(count, np.int64),
        on_day=np.full(count, 100),
    )
    return replace(made, **{name: np.asarray(value) for name, value in columns.items()})


def decided(found: Members, cohesion: float = 0.8, *, by_cohesion: bool = False) -> GroupVerdict:
    return decide_group(RULES, found, cohesion, "aggressive", by_cohesion=by_cohesion)


@pytest.mark.parametrize(
    ("found", "action", "level", "taken"),
    [
        (members(0.1, 0.9), "link", "aggressive", 2),
        (members(0.1, 0.1, 0.1), "link", "aggressive", 3),
        (members(0.1, 0.2, 0.3, 0.39), "summary", "aggressive", 4),
        (members(0.1, 0.2, 0.5, 0.61), "support", "aggressive", 3),
        (members(0.1, 0.5, 0.5, 0.6), "summary", "light", 4),
        (members(0.1, 0.5, 0.5, 0.6, age_days=[31.0] * 4), "summary", "aggressive", 4),
        (members(0.1, 0.5, 0.5, 0.6, age_days=[31.0] * 3 + [30.0]), "summary", "light", 4),
        (members(0.1, 0.2, 0.3, 0.3, threads=[0] * 4), "narrative", "aggressive", 4),
        (members(0.1, 0.2, 0.3, 0.7, said_at=[0.0, 10.0, 19.0, 30.0]), "narrative", "aggressive", 3),
    ],
)
def test_the_first_of_the_table_that_matches(found: Members, action: str, level: str, taken: int) -> None:
    verdict = decided(found)
    assert (verdict.action, verdict.level, int(verdict.taken.sum())) == (action, level, taken)


@pytest.mark.parametrize(("cohesion", "action", "waits"), [(0.9, "duplicates", False), (0.75, "duplicates", True)])
def test_by_cohesion_duplicates_are_merged_or_asked_about(cohesion: float, action: str, waits: bool) -> None:
    verdict = decided(members(0.1, 0.2), cohesion, by_cohesion=True)
    assert (verdict.action, verdict.waits) == (action, waits)
    assert decided(members(0.1, 0.2), 0.749, by_cohesion=True).action is None


def test_of_a_day_of_which_nothing_else_is_left_the_most_important_stays() -> None:
    found = members(0.1, 0.3, 0.2, 0.1, 0.1, days=[0, 0, 0, 1, 1], on_day=[3, 3, 3, 3, 3])
    assert decided(found).taken.tolist() == [True, False, True, True, True]
    assert decide_group(replace(RULES, one_a_day=False), found, 1.0, "light", by_cohesion=False).taken.all()


@pytest.mark.parametrize(("cohesion", "taken"), [(0.89, 2), (0.9, 4)])
def test_memories_protected_from_decay_are_merged_only_if_the_group_says_nearly_the_same(
    cohesion: float, taken: int
) -> None:
    found = members(0.1, 0.1, 0.1, 0.1, is_protected=[True, True, False, False])
    verdict = decided(found, cohesion)
    assert int(verdict.taken.sum()) == taken
    if taken == 2:
        assert verdict.taken.tolist() == [False, False, True, True]


def test_protected_memories_are_linked_and_merged_with_approval() -> None:
    assert decided(members(0.1, 0.1, is_protected=[True, True]), 0.6).taken.all()
    agreed = approve_verdict(RULES, members(0.1, 0.1, is_protected=[True, True]), "light")
    assert agreed.taken.all()


def test_where_too_few_are_left_nothing_is_summarised() -> None:
    verdict = decided(members(0.1, 0.1, 0.1, 0.1, is_kept=[True, True, True, False]))
    assert verdict.action is None
    assert "1 of them" in verdict.why


def test_a_sequence_is_turns_of_one_thread_or_even_steps() -> None:
    assert is_sequence(members(0.1, 0.1, 0.1, 0.1, threads=[3] * 4))
    assert not is_sequence(members(0.1, 0.1, 0.1, 0.1, threads=[3, 3, 3, 4]))
    assert not is_sequence(members(0.1, 0.1, 0.1, 0.1, said_at=[5.0] * 4)), "simultaneous memories have no order"


SHARES = st.floats(0, 1)


@st.composite
def groups(draw: st.DrawFn) -> Members:
    count = draw(st.integers(2, 12))

    def column(values: st.SearchStrategy[Any]) -> Any:
        return draw(st.lists(values, min_size=count, max_size=count))

    days = np.array(column(st.integers(0, 3)))
    more = np.array(draw(st.lists(st.integers(0, 2), min_size=4, max_size=4)))
    return Members(
        importance=np.array(column(SHARES)),
        age_days=np.array(column(st.floats(0, 60))),
        said_at=np.array(column(st.floats(0, 1e6))),
        threads=np.array(column(st.integers(-1, 1))),
        is_kept=np.array(column(st.booleans())),
        is_protected=np.array(column(st.booleans())),
        days=days,
        on_day=np.array([int(np.sum(days == day)) + more[day] for day in days]),
    )


@given(groups(), SHARES, st.booleans(), st.booleans())
def test_nothing_that_is_preserved_is_ever_merged_away(
    found: Members, cohesion: float, by_cohesion: bool, asked: bool
) -> None:
    verdict = approve_verdict(RULES, found, "medium") if asked else decided(found, cohesion, by_cohesion=by_cohesion)
    if verdict.action in (None, "link"):
        return
    taken = verdict.taken
    assert taken.sum() >= 2
    assert not (taken & found.is_kept).any()
    assert asked or cohesion >= RULES.merged_from or not (taken & found.is_protected).any()
    assert not (found.importance[taken] > RULES.keep_importance_above).any()
    assert not (found.age_days[taken] < RULES.keep_days).any()
    for day in np.unique(found.days):
        assert found.on_day[found.days == day][0] > taken[found.days == day].sum(), "one memory of each day stays"


@given(groups(), SHARES, st.booleans())
def test_what_a_summary_leaves_is_not_summarised_further(found: Members, cohesion: float, by_cohesion: bool) -> None:
    taken = decided(found, cohesion, by_cohesion=by_cohesion).taken
    if taken.all() or not taken.any():
        return
    fewer = [int(taken[found.days == day].sum()) for day in found.days]
    rest = replace(found, on_day=found.on_day - fewer)
    left = Members(*(getattr(rest, column.name)[~taken] for column in fields(Members)))
    if left.importance.size > 1:
        assert decided(left, cohesion, by_cohesion=by_cohesion).action in (None, "link")
