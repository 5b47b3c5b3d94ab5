"""Reinforcement of a batch of memories by many uses: which of them count, and what they make of the states."""

from __future__ import annotations

from bisect import bisect, insort
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import Event, Row, State, take

_SLACK_SECONDS: Final = 1e-6  # doubles of this century are off by a quarter of it


@dataclass(frozen=True, slots=True)
class Moments:
    """When which memory was used in which session; every array has shape (n,).

    Attributes:
        rows: The memories' places in the batch.
        sessions: Digests.
        at: Seconds since 1970.
    """

    rows: npt.NDArray[np.intp]
    sessions: npt.NDArray[np.int64]
    at: Floats


@dataclass(frozen=True, slots=True)
class Uses(Moments):
    """Uses in the order in which they count; the other attributes are those of `Event`."""

    boost: npt.NDArray[np.bool_]
    place: Floats
    margin: Floats
    lexical: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        """How many they are."""
        return len(self.rows)

    def only(self, places: npt.NDArray[np.intp]) -> Uses:
        """Those at these places alone."""
        return Uses(**{field.name: getattr(self, field.name)[places] for field in fields(Uses)})


@dataclass(frozen=True, slots=True)
class Reinforced:
    """What uses have made of a batch.

    Attributes:
        state: Every memory of the batch, after all of the uses.
        late: Which uses came after a later one, so that they were counted and nothing else, shape (n,).
        before: Strength before each use, at its moment; before a late one, now.
        after: Strength after it.
    """

    state: State
    late: npt.NDArray[np.bool_]
    before: Floats
    after: Floats


def rested(uses: Uses, known: Moments, refractory_seconds: float) -> npt.NDArray[np.intp]:
    """Places of the uses that count: one session reinforces a memory at most once in so many seconds.

    Whichever is told of first counts, so that the outcome doesn't depend on how the uses came in batches.

    Args:
        uses: In the order in which they were told.
        known: Uses that have counted before, in any order; those farther away than that aren't needed.
        refractory_seconds: 0 or more.
    """
    if refractory_seconds <= 0:
        return np.arange(len(uses))
    counted: dict[tuple[int, int], list[float]] = defaultdict(list)
    for row, session, at in zip(known.rows.tolist(), known.sessions.tolist(), known.at.tolist(), strict=True):
        insort(counted[row, session], at)
    near = refractory_seconds - _SLACK_SECONDS
    places = []
    told = zip(uses.rows.tolist(), uses.sessions.tolist(), uses.at.tolist(), strict=True)
    for place, (row, session, at) in enumerate(told):
        moments = counted[row, session]
        following = bisect(moments, at)
        if any(abs(at - moment) < near for moment in moments[max(following - 1, 0) : following + 1]):
            continue
        moments.insert(following, at)
        places.append(place)
    return np.array(places, np.intp)


def reinforced(dynamics: Dynamics, state: State, uses: Uses, now: float) -> Reinforced:
    """The memories after the uses, each memory's own in the order given.

    Args:
        dynamics: What the memories fade by.
        state: The memories.
        uses: Of them, none later than `now`.
        now: Seconds since 1970.
    """
    columns = {field.name: np.array(getattr(state, field.name), np.float64) for field in fields(Row)}
    state = Row(**columns)
    late = np.zeros(len(uses), np.bool_)
    before, after = np.zeros(len(uses)), np.zeros(len(uses))
    for turn in _turns(uses.rows):
        once = uses.only(turn)
        used = take(state, once.rows)
        late[turn] = once.at < used.accessed_at
        moments = np.where(late[turn], now, once.at)
        before[turn] = dynamics.strength(used, moments)
        event = Event(once.at, now, boost=once.boost, place=once.place, margin=once.margin, lexical=once.lexical)
        used = dynamics.reinforce(used, event)
        after[turn] = dynamics.strength(used, moments)
        for name, column in columns.items():
            column[once.rows] = getattr(used, name)
    return Reinforced(state, late, before, after)


def _turns(rows: npt.NDArray[np.intp]) -> Iterator[npt.NDArray[np.intp]]:
    """Places so that no memory is twice in one turn: its first use in the first turn, its second in the second."""
    if not rows.size:
        return
    order = np.argsort(rows, kind="stable")
    begins = np.flatnonzero(np.diff(rows[order], prepend=-1))
    turns = np.empty(rows.size, np.intp)
    turns[order] = np.arange(rows.size) - np.repeat(begins, np.diff(begins, append=rows.size))
    yield from np.split(np.argsort(turns, kind="stable"), np.cumsum(np.bincount(turns))[:-1])
