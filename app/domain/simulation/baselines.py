"""Simulate simpler forgetting policies that may retain as many memories each night as the policy under test.

Dropped memories never come back. Search results that are still retained count as used, as in the service.
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
        ranking: All matching memories if none were forgotten, best first.
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
    """Rank by creation: a fixed time to live retains the youngest."""
    return history.created


def lru(history: BaselineHistory, _day: float) -> Floats:
    """Rank by last use: retains the most recently used."""
    return history.used


def linear(history: BaselineHistory, day: float) -> Floats:
    """Rank by a strength that starts at 1, falls linearly and rises with each use: retains the strongest."""
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
    there = np.ones(len(created), np.bool_)
    following = 0
    for day, size in enumerate(sizes):
        while following < len(searches) and searches[following].day < day:
            _use(history, there, searches[following])
            following += 1
        come = np.flatnonzero(there & (created < day))
        if len(come) > size:
            order = np.argsort(worth(history, day)[come], kind="stable")
            there[come[order[: len(come) - size]]] = False
    for search in searches[following:]:
        _use(history, there, search)
    return np.flatnonzero(there)


def _use(history: BaselineHistory, there: npt.NDArray[np.bool_], search: BaselineSearch) -> None:
    found = search.ranking[there[search.ranking]][:RESULTS]
    if search.answers is not None:
        found = found[np.isin(found, search.answers)]
    left = linear(history, search.day)[found]
    history.strength[found] = left + LIFT * (1 - left)
    history.used[found] = search.day
