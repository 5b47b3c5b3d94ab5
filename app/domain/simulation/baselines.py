"""Simulate simpler forgetting policies that retain at most as many memories each night as the policy under test.

A dropped memory is lost permanently. Search results that are still retained count as used, as in the service.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]

RESULTS: Final = 10
SLOPE_DAYS: Final = 90.0
"""Days in which linear strength falls from 1 to 0."""
LIFT: Final = 0.5
"""Share of the gap to 1 by which a use raises linear strength."""


class BaselineSearch(NamedTuple):
    """A search of the simulated year.

    Attributes:
        day: Day of the search.
        ranking: All memories that match if none are forgotten, best first.
        answers: Memories that count as used if they are among the results; None for all results.
    """

    day: float
    ranking: Places
    answers: tuple[int, ...] | None = None


class BaselineHistory(NamedTuple):
    """State of the memories under a baseline; every array has shape (n,).

    Attributes:
        created: Day of creation.
        used: Day of the last use; the day of creation if unused.
        strength: Linear strength at `used`.
    """

    created: Floats
    used: Floats
    strength: Floats


def ttl(history: BaselineHistory, _day: float) -> Floats:
    """Rank by creation: a fixed time to live retains the youngest memories."""
    return history.created


def lru(history: BaselineHistory, _day: float) -> Floats:
    """Rank by last use: the most recently used memories are retained."""
    return history.used


def linear(history: BaselineHistory, day: float) -> Floats:
    """Rank by a strength that starts at 1, falls linearly and rises with each use: the strongest are retained."""
    return history.strength - (day - history.used) / SLOPE_DAYS


BASELINES: Final[dict[str, Callable[[BaselineHistory, float], Floats]]] = {"ttl": ttl, "lru": lru, "linear": linear}


def retained_memories(name: str, created: Floats, searches: Sequence[BaselineSearch], sizes: Sequence[int]) -> Places:
    """Return the memories that a baseline retains after the last night.

    Args:
        name: A key of `BASELINES`.
        created: Day of creation of each memory, shape (n,), ascending.
        searches: In chronological order.
        sizes: Maximum number of memories after each night; night i precedes day i.
    """
    worth = BASELINES[name]
    history = BaselineHistory(created, created.copy(), np.ones(len(created)))
    is_retained = np.ones(len(created), np.bool_)
    next_search = 0
    for day, size in enumerate(sizes):
        while next_search < len(searches) and searches[next_search].day < day:
            _use(history, is_retained, searches[next_search])
            next_search += 1
        candidates = np.flatnonzero(is_retained & (created < day))
        if len(candidates) > size:
            order = np.argsort(worth(history, day)[candidates], kind="stable")
            is_retained[candidates[order[: len(candidates) - size]]] = False
    for search in searches[next_search:]:
        _use(history, is_retained, search)
    return np.flatnonzero(is_retained)


def _use(history: BaselineHistory, there: npt.NDArray[np.bool_], search: BaselineSearch) -> None:
    results = search.ranking[there[search.ranking]][:RESULTS]
    if search.answers is not None:
        results = results[np.isin(results, search.answers)]
    strength = linear(history, search.day)[results]
    history.strength[results] = strength + LIFT * (1 - strength)
    history.used[results] = search.day
