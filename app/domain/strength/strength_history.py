"""Compute one memory's strength over time: the past, replayed from its history, and the forecast.

A memory's row stores only its current state, so the past is replayed: each event of the history is applied again under
the policy of its time. Wherever the history records a strength, the replay continues from the recorded value. From the
row's anchor on, the row's state is used, so that the curve agrees with the service.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from app.domain.dynamics.memory_decay import MemoryDecay
from app.domain.dynamics.mnemex import Mnemex
from app.domain.dynamics.ops import Floats
from app.domain.dynamics.profiles import rebase
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import Event, State, new, take
from app.domain.dynamics.timeline import Era, Timeline
from app.domain.tiers.decay_tier import DECAY_TIERS

POINTS: Final = 240
"""Number of sample times in the past; the forecast has half as many. Each event adds points of its own."""
TICKS_MAX: Final = 10_000
"""Maximum number of ticks computed for a tick-based model, in the past and in the forecast each."""

INPUTS: Final = ("salience", "kind", "multiplier", "pace")
USES: Final = ("use", "late_use", "review_passed")
TELLING: Final = ("use", "test", "restored", *INPUTS)
"""Events that change a memory and record its strength immediately afterwards."""
CHANGING: Final = (*TELLING, "late_use", "review_passed", "associate")
"""Events that may change the further decay of a memory."""
SHOWING: Final = ("tier", "wanted_tier", "promoted")
"""Events that record the strength without changing the memory."""
_AFTERWARDS: Final = ("restored", "multiplier", "late_use", "review_passed", "associate")
"""Events that don't record the strength immediately before them."""
_ROUNDING: Final = 2e-6
"""Tolerance for strengths in the history, which have single precision."""


class HistoryEntry(NamedTuple):
    """One entry of a memory's history, with its raw numbers; `at` is in seconds since 1970."""

    at: float
    place: int
    kind: str
    before: float | None
    after: float | None
    strength: float | None


class CurvePoint(NamedTuple):
    """Strength at a time, in seconds since 1970; an event has two points, before and after."""

    at: float
    strength: float


@dataclass(frozen=True, slots=True)
class KnownHistory:
    """Stored state and history of a memory.

    Attributes:
        state: State in its row: a batch of one.
        version: Version of the policy under which the row was anchored.
        accepted_at: Seconds since 1970.
        entries: Its history, in any order; only the newest entries if it is very long.
        is_whole: True if the history is complete.
    """

    state: State
    version: int
    accepted_at: float
    entries: Sequence[HistoryEntry]
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class StrengthHistory:
    """Strength over time.

    Attributes:
        past: Points from the earliest time that can be reconstructed up to now.
        ahead: Points from now on, if the memory isn't used.
        marks: Events in chronological order, each with the strength after it.
        is_whole: True if the past starts at the memory's creation.
    """

    past: list[CurvePoint]
    ahead: list[CurvePoint]
    marks: list[tuple[HistoryEntry, float]]
    is_whole: bool


def compute_history(known: KnownHistory, times: Timeline, now: float, until: float) -> StrengthHistory:
    """Compute the strength of a memory over time.

    Args:
        times: The tenant's policies.
        now: Seconds since 1970.
        until: End of the forecast, in seconds since 1970.
    """
    begin = float(known.state.created_at[0])
    for era in times.eras:
        if isinstance(era.dynamics, MemoryDecay):
            reach = TICKS_MAX * era.dynamics.parameters.tick_seconds
            begin, until = max(begin, now - reach), min(until, now + reach)
    replay = _Replay(known, times, begin)
    walk = replay.walk
    anchor = max(walk.clock, float(known.state.anchored_at[0]))
    walk.fade(anchor)
    current = _Advance(times, known.state, known.version, anchor)
    today = max(now, anchor)
    current.fade(today)
    past = _draw_points([*walk.pieces, *current.pieces] or [current.stretch(today)], today)
    current.pieces.clear()
    current.fade(until)
    ahead = _draw_points(current.pieces, until, POINTS // 2) if current.pieces else []
    return StrengthHistory(past, [past[-1], *ahead], list(_marks(known.entries, past)), replay.is_whole)


class _Interval(NamedTuple):
    """An interval without events under a single policy."""

    begin: float
    end: float
    era: Era
    state: State

    def points(self, grid: Floats) -> Iterator[CurvePoint]:
        """Yield points at the ends of the interval and at the grid times between them."""
        inside = grid[(grid > self.begin) & (grid < self.end)]
        moments = np.array([self.begin, *inside, self.end])
        rows = take(self.state, np.zeros(moments.size, np.intp))
        return map(CurvePoint, moments.tolist(), self.era.dynamics.strength(rows, moments).tolist())


class _Advance:
    """Advance a memory's state through time and policies, and record the intervals in `pieces`."""

    def __init__(self, times: Timeline, state: State, version: int, clock: float) -> None:
        self.state = state
        self.clock = clock
        self.pieces: list[_Interval] = []
        self._eras = times.eras
        self._place = max(place for place, era in enumerate(self._eras) if era.version <= version)

    @property
    def dynamics(self) -> Dynamics:
        """The current policy's forgetting model."""
        return self._eras[self._place].dynamics

    def stretch(self, until: float) -> _Interval:
        """Return the interval from `clock` to `until`, which must not be after the next change of policy."""
        return _Interval(self.clock, until, self._eras[self._place], self.state)

    def fade(self, until: float) -> None:
        """Advance the state to a time, rebasing it at each change of policy."""
        for following in self._eras[self._place + 1 :]:
            if following.since > until:
                break
            self._pass(following.since)
            self.state = rebase(self.state, following.since, self.dynamics, following.dynamics)
            self._place += 1
        self._pass(until)

    def _pass(self, until: float) -> None:
        if until > self.clock:
            self.pieces.append(self.stretch(until))
            self.clock = until


class _Replay:
    """A memory's past, replayed from its creation or from the first recorded strength."""

    def __init__(self, known: KnownHistory, times: Timeline, begin: float) -> None:
        self._times = times
        ordered = _order_entries(known.entries)
        uses = sum(entry.kind in USES or counts for entry, counts in ordered)
        missing = round(float(known.state.access_count[0])) - uses
        created = float(known.state.created_at[0])
        self.is_whole = known.is_whole and missing <= 0 and begin <= created
        if self.is_whole:
            version = times.at(known.accepted_at).version
            self.walk = _Advance(times, self._first(known, ordered), version, created)
        else:
            ordered = [(entry, counts) for entry, counts in ordered if entry.at >= begin]
            self.walk = self._from_the_middle(known, ordered, max(missing, 0))
        for place, (entry, counts) in enumerate(ordered):
            if entry.kind in (*CHANGING, *SHOWING) and entry.at >= self.walk.clock - _ROUNDING:
                self.walk.fade(max(entry.at, self.walk.clock))
                self._see_boosts(entry)
                later = ordered[place + 1][0] if place + 1 < len(ordered) else None
                self._happen(entry, later, counts=counts)

    def _first(self, known: KnownHistory, told: Sequence[tuple[HistoryEntry, bool]]) -> State:
        """Return the state at acceptance, with the inputs as they were before later changes."""
        inputs = {name: float(getattr(known.state, name)[0]) for name in INPUTS}
        for entry, _ in reversed(told):
            if entry.kind in INPUTS and entry.before is not None:
                inputs[entry.kind] = entry.before
            elif entry.kind == "test" and isinstance(model := self._times.at(entry.at).dynamics, Mnemex):
                inputs["multiplier"] = max(inputs["multiplier"] - model.parameters.boost, 0.0)
        return new(
            known.state.created_at,
            salience=inputs["salience"],
            kind=round(inputs["kind"]),
            multiplier=inputs["multiplier"],
            pace=inputs["pace"],
        )

    def _from_the_middle(self, known: KnownHistory, told: Sequence[tuple[HistoryEntry, bool]], uses: int) -> _Advance:
        """Start from the first recorded strength; if there is none, from the row's state."""
        anchored = float(known.state.anchored_at[0])
        first = next((entry for entry, _ in told if entry.kind in (*TELLING, *SHOWING)), None)
        if first is None or first.strength is None or first.at >= anchored:
            return _Advance(self._times, known.state, known.version, anchored)
        state = replace(self._first(known, told), access_count=np.array([float(uses)]))
        walk = _Advance(self._times, state, self._times.at(first.at).version, first.at)
        strength = first.before if first.kind in ("use", "test") and first.before is not None else first.strength
        walk.state = walk.dynamics.at_strength(state, first.at, strength)
        return walk

    def _see_boosts(self, entry: HistoryEntry) -> None:
        """Infer boosts of mnemex's multiplier, which the history lacks, from the next recorded strength."""
        walk = self.walk
        recorded = entry.before if entry.kind in ("use", "test") else entry.strength
        if not recorded or entry.kind in _AFTERWARDS or not isinstance(walk.dynamics, Mnemex):
            return
        [strength] = walk.dynamics.strength(walk.state, walk.clock).tolist()
        if 0 < strength < 1 and recorded < 1 and abs(strength - recorded) > _ROUNDING:
            walk.state = replace(walk.state, multiplier=walk.state.multiplier * (recorded / strength))
            walk.pieces[-1:] = [last._replace(state=walk.state) for last in walk.pieces[-1:]]

    def _happen(self, entry: HistoryEntry, following: HistoryEntry | None, *, counts: bool) -> None:
        walk, dynamics, now = self.walk, self.walk.dynamics, self.walk.clock
        match entry.kind:
            case "associate" | "test":
                walk.state = dynamics.reinforce(walk.state, Event(at=now, now=now, source=entry.kind))
            case "late_use":
                walk.state = dynamics.reinforce(walk.state, Event(at=entry.at, now=now))
            case "salience" | "kind" | "multiplier" | "pace":
                self._change(entry.kind, entry.after or 0.0, now)
            case _ if counts or entry.kind in USES:
                walk.state = dynamics.reinforce(walk.state, Event(at=now, now=now))
            case _:
                pass
        # For inputs changed together, the strength recorded with the last one includes all of them.
        if following is not None and {entry.kind, following.kind} <= set(INPUTS) and following.at == entry.at:
            return
        if entry.kind in TELLING and entry.strength is not None:
            [strength] = dynamics.strength(walk.state, now).tolist()
            if abs(strength - entry.strength) > _ROUNDING:
                walk.state = dynamics.at_strength(walk.state, now, entry.strength)

    def _change(self, name: str, value: float, now: float) -> None:
        walk, dynamics = self.walk, self.walk.dynamics
        column = {name: np.array([value])}
        if name == "multiplier":  # only this input changes the strength immediately
            walk.state = replace(rebase(walk.state, now, dynamics, dynamics), **column)
        else:
            walk.state = rebase(walk.state, now, dynamics, dynamics, replace(walk.state, **column))


def _order_entries(entries: Sequence[HistoryEntry]) -> list[tuple[HistoryEntry, bool]]:
    """Return the entries in the order in which they took effect, each with a flag: true if a restore counts as a use.

    A late use took effect when it was recorded. A restore on request counts as a use, as does every restore from cold
    storage. A restore from the archive that was caused by a use doesn't, because this use has an entry of its own.
    """
    latest, by_effect = 0.0, []
    for entry in sorted(entries, key=lambda entry: entry.place):
        latest = max(latest, entry.at)
        by_effect.append((latest if entry.kind == "late_use" else entry.at, entry.place, entry))
    flagged, used = [], False
    ordered = [entry for *_, entry in sorted(by_effect)]
    for place, entry in enumerate(ordered):
        counts = False
        if entry.kind == "tier":
            used = False
        elif entry.kind in ("use", "review_passed"):
            used = True
        elif entry.kind == "restored":
            by_review = any(
                nearby.kind == "review_passed" and nearby.at == entry.at for nearby in ordered[place : place + 3]
            )
            counts = entry.before == DECAY_TIERS.index("cold") or not (used or by_review)
        flagged.append((entry, counts))
    return flagged


def _draw_points(pieces: Sequence[_Interval], end: float, points: int = POINTS) -> list[CurvePoint]:
    grid = np.linspace(pieces[0].begin, end, points)
    return [point for piece in pieces for point in piece.points(grid)]


def _marks(entries: Sequence[HistoryEntry], past: Sequence[CurvePoint]) -> Iterator[tuple[HistoryEntry, float]]:
    moments = np.array([point.at for point in past])
    for entry in sorted(entries, key=lambda entry: (entry.at, entry.place)):
        if entry.at < moments[0] - 1:
            continue
        if entry.kind in (*TELLING, *SHOWING) and entry.strength is not None:
            yield entry, entry.strength
        else:
            place = int(np.searchsorted(moments, entry.at, side="right")) - 1
            yield entry, past[max(place, 0)].strength
