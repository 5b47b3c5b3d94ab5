"""The baselines retain as many memories each night as allowed, and dropped memories don't return."""

from __future__ import annotations

import numpy as np
import pytest

from app.domain.simulation.baselines import BASELINES, RESULTS, BaselineSearch, retained_memories

CREATED = np.array([0.0, 1.0, 2.0, 3.0])


def left(name: str, sizes: list[int], *searches: BaselineSearch) -> list[int]:
    found: list[int] = retained_memories(name, CREATED, searches, sizes).tolist()
    return found


@pytest.mark.parametrize("name", BASELINES)
def test_with_room_for_all_nothing_is_dropped(name: str) -> None:
    assert left(name, [9] * 10) == [0, 1, 2, 3]


@pytest.mark.parametrize("name", BASELINES)
def test_unused_the_youngest_are_kept(name: str) -> None:
    assert left(name, [2] * 10) == [2, 3]


def test_a_use_keeps_a_memory_but_not_by_a_fixed_time_to_live() -> None:
    used = BaselineSearch(3.5, np.array([0]))
    assert left("lru", [9] * 4 + [2], used) == [0, 3]
    assert left("linear", [9] * 90 + [1], BaselineSearch(89.5, np.array([0]))) == [0]
    assert left("ttl", [9] * 4 + [2], used) == [2, 3]


def test_where_a_caller_tells_what_it_used_the_other_results_aren_t() -> None:
    reported = BaselineSearch(3.5, np.array([0, 1]), (1,))
    assert left("lru", [9] * 4 + [2], reported) == [1, 3]


def test_what_is_dropped_is_neither_found_nor_used() -> None:
    assert left("lru", [9, 9, 9, 9, 2], BaselineSearch(5.0, np.array([0, 1]))) == [2, 3]


def test_the_first_that_are_left_count_as_found() -> None:
    created = np.arange(2.0 + RESULTS)
    ranking = np.arange(2 + RESULTS)
    sizes = [99] * 20 + [RESULTS, RESULTS]
    assert retained_memories("lru", created, [BaselineSearch(19.5, ranking)], sizes).tolist() == list(range(RESULTS))
