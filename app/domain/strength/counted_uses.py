"""Reinforce a batch of memories by many uses: select the uses that count and apply them."""

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

_SLACK_SECONDS: Final = 1e-6  # about four times the rounding error of this century's timestamps as doubles


@dataclass(frozen=True, slots=True)
class UseTimes:
    """Uses by memory, session and time; every array has shape (n,).

    Attributes:
        rows: Indexes of the memories in the batch.
        sessions: Session digests.
        at: Seconds since 1970.
    """

    rows: npt.NDArray[np.intp]
    sessions: npt.NDArray[np.int64]
    at: Floats


@dataclass(frozen=True, slots=True)
class OrderedUses(UseTimes):
    """Uses in the order in which they are applied; see `Event` for the additional attributes."""

    boost: npt.NDArray[np.bool_]
    place: Floats
    margin: Floats
    lexical: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        """Return the number of uses."""
        return len(self.rows)

    def only(self, places: npt.NDArray[np.intp]) -> OrderedUses:
        """Return the uses at these indexes."""
        return OrderedUses(**{field.name: getattr(self, field.name)[places] for field in fields(OrderedUses)})


@dataclass(frozen=True, slots=True)
class ReinforcementResult:
    """Result of applying uses to a batch.

    Attributes:
        state: State of every memory of the batch after all uses.
        late: True for a use older than the memory's last one: only its count was applied, shape (n,).
        before: Strength immediately before each use; before a late use, the current strength.
        after: Strength after each use.
    """

    state: State
    late: npt.NDArray[np.bool_]
    before: Floats
    after: Floats


def effective_uses(uses: OrderedUses, known: UseTimes, refractory_seconds: float) -> npt.NDArray[np.intp]:
    """Return the indexes of the uses that count: at most one per memory and session within the refractory period.

    The use reported first counts, so that the result doesn't depend on how uses are split into batches.

    Args:
        uses: In the order in which they were reported.
        known: Uses that counted earlier, in any order; those beyond the refractory period may be omitted.
        refractory_seconds: 0 or more.
    """
    if refractory_seconds <= 0:
        return np.arange(len(uses))
    counted: dict[tuple[int, int], list[float]] = defaultdict(list)
    for row, session, at in zip(known.rows.tolist(), known.sessions.tolist(), known.at.tolist(), strict=True):
        insort(counted[row, session], at)
    window = refractory_seconds - _SLACK_SECONDS
    places = []
    columns = zip(uses.rows.tolist(), uses.sessions.tolist(), uses.at.tolist(), strict=True)
    for place, (row, session, at) in enumerate(columns):
        moments = counted[row, session]
        position = bisect(moments, at)
        if any(abs(at - moment) < window for moment in moments[max(position - 1, 0) : position + 1]):
            continue
        moments.insert(position, at)
        places.append(place)
    return np.array(places, np.intp)


def apply_uses(dynamics: Dynamics, state: State, uses: OrderedUses, now: float) -> ReinforcementResult:
    """Apply the uses to the memories, preserving the order of each memory's uses.

    Args:
        uses: Uses of these memories, none later than `now`.
        now: Seconds since 1970.
    """
    columns = {field.name: np.array(getattr(state, field.name), np.float64) for field in fields(Row)}
    state = Row(**columns)
    late = np.zeros(len(uses), np.bool_)
    before, after = np.zeros(len(uses)), np.zeros(len(uses))
    for turn in _split_turns(uses.rows):
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
    return ReinforcementResult(state, late, before, after)


def _split_turns(rows: npt.NDArray[np.intp]) -> Iterator[npt.NDArray[np.intp]]:
    """Split use indexes into turns so that turn k holds the k-th use of each memory."""
    if not rows.size:
        return
    order = np.argsort(rows, kind="stable")
    begins = np.flatnonzero(np.diff(rows[order], prepend=-1))
    turns = np.empty(rows.size, np.intp)
    turns[order] = np.arange(rows.size) - np.repeat(begins, np.diff(begins, append=rows.size))
    yield from np.split(np.argsort(turns, kind="stable"), np.cumsum(np.bincount(turns))[:-1])
