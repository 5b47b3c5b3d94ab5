"""What simpler ways of forgetting would keep, where they may keep as much each night as the one that is measured.

What they have dropped doesn't come back. What a search finds among the kept counts as used, as it does there.
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
"""Days in which a linear strength falls from 1 to 0."""
LIFT: Final = 0.5
"""By which share of what it lacks to 1 a use lifts a linear strength."""


class Search(NamedTuple):
    """A search of the year.

    Attributes:
        day: When.
        ranking: All memories that it would find, best first, were none forgotten.
        answers: Those that count as used where they are among the results; None for all results.
    """

    day: float
    ranking: Places
    answers: tuple[int, ...] | None = None


class History(NamedTuple):
    """What baselines know of memories; every array has shape (n,).

    Attributes:
        created: Day of each memory.
        used: Day of its last use, of its creation if there was none.
        strength: Linear strength at `used`.
    """

    created: Floats
    used: Floats
    strength: Floats


def ttl(history: History, _day: float) -> Floats:
    """The youngest are kept: a fixed time to live."""
    return history.created


def lru(history: History, _day: float) -> Floats:
    """The last used are kept."""
    return history.used


def linear(history: History, day: float) -> Floats:
    """The strongest are kept, where strength begins at 1, falls by the same each day, and is lifted by a use."""
    return history.strength - (day - history.used) / SLOPE_DAYS


BASELINES: Final[dict[str, Callable[[History, float], Floats]]] = {"ttl": ttl, "lru": lru, "linear": linear}


def kept(name: str, created: Floats, searches: Sequence[Search], sizes: Sequence[int]) -> Places:
    """Which memories a baseline has left after the last night.

    Args:
        name: One of `BASELINES`.
        created: Day of each memory, shape (n,), rising.
        searches: In the order of time.
        sizes: Most memories that it may keep after the night of each day; the night begins the day.
    """
    worth = BASELINES[name]
    history = History(created, created.copy(), np.ones(len(created)))
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


def _use(history: History, there: npt.NDArray[np.bool_], search: Search) -> None:
    found = search.ranking[there[search.ranking]][:RESULTS]
    if search.answers is not None:
        found = found[np.isin(found, search.answers)]
    left = linear(history, search.day)[found]
    history.strength[found] = left + LIFT * (1 - left)
    history.used[found] = search.day
