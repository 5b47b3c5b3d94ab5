"""Advance a tenant's decay by ticks, as memory-decay's API asks for it.

A tick changes the state from which strength is computed, and nothing else: acceptance, expiry, holds, erasures and the
audit log use real time. In the tenant's policy, one tick is a year of real time, so that memories weaken through
explicit ticks and hardly through the passing of time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.memory_decay import MemoryDecay
from app.domain.dynamics.ops import Floats
from app.domain.dynamics.state import STRENGTH_MIN, State, new
from app.domain.dynamics.timeline import Era
from app.errors import Conflict
from app.services.strength import memory_strength
from app.services.tenants import policy_versions
from app.services.tenants.policy_versions import RequestedChange
from app.store.core import database
from app.store.enrichment.work_queue import NIL
from app.store.strength import states
from app.store.strength.states import StoredStates
from app.store.ticks import activation_history, decay_clocks, ticked_memories
from app.store.ticks.activation_history import TickAnchor, TickAnchors
from app.store.ticks.decay_clocks import DecayClock

INTERVAL_SECONDS: Final = 3600.0
"""Seconds of real time per tick of a new clock."""
AUTO_TICKS_MAX: Final = 100
"""Maximum number of ticks of one automatic call."""
HISTORY_TICKS: Final = 200
"""Number of newest ticks whose activation is shown."""
PROFILE: Final = "memory_decay"
REAL_TICK_SECONDS: Final = 31_536_000
"""Length of a tick in real time: the longest that the profile allows."""
ROWS: Final = 2_000
_RECORDED: Final = ("retrieval", "stability", "salience", "kind")
_TOLERANCE: Final = 1e-6

_POLICY: Final = {"forgetting": {"profile": PROFILE, "parameters": {"tick_seconds": REAL_TICK_SECONDS}}}


class HistoryPoint(NamedTuple):
    """Activation of one memory after a tick."""

    tick: int
    storage: float
    retrieval: float
    stability: float
    recorded_at: datetime


class TickCall(NamedTuple):
    """A request for ticks.

    Attributes:
        tick: The tick before the call.
        ticks: Number of ticks.
        later: For memories submitted with a creation tick in the future: that tick, by memory id. They don't decay
            before it.
        sums: For each of the last ticks of the call, the sums over all memories after that tick (columns as in
            `add_averages`).
    """

    tick: int
    ticks: int
    later: Mapping[UUID, int]
    sums: Floats


class AutoTicks(NamedTuple):
    """The number of whole ticks in the elapsed time, and the clock after applying them."""

    applied: int
    elapsed_seconds: float
    clock: DecayClock


def open_clock(tenant_id: UUID, actor: str) -> DecayClock:
    """Return the tenant's clock; for the first call, create it and set the tenant's forgetting profile.

    Args:
        actor: The actor named in the audit log for the change of the policy.
    """
    with database.tenant(tenant_id) as tx:
        clock = decay_clocks.read(tx, tenant_id)
    if clock is not None:
        return clock
    policy_versions.write_change(tenant_id, RequestedChange(_POLICY), actor)
    with database.tenant(tenant_id) as tx:
        decay_clocks.insert(tx, tenant_id, INTERVAL_SECONDS)
        return _locked(tx, tenant_id)


def advance(tenant_id: UUID, count: int) -> DecayClock:
    """Advance the decay of all memories by this many ticks, in one transaction; return the clock.

    Raises:
        Conflict: The tenant's policy no longer uses the profile `memory_decay`.
    """
    with database.tenant(tenant_id) as tx:
        return _advance(tx, tenant_id, _locked(tx, tenant_id), count)


def advance_by_time(tenant_id: UUID) -> AutoTicks:
    """Advance by the whole ticks that have elapsed since the last one, at most `AUTO_TICKS_MAX`.

    Raises:
        Conflict: The tenant's policy no longer uses the profile `memory_decay`.
    """
    with database.tenant(tenant_id) as tx:
        clock = _locked(tx, tenant_id)
        elapsed = max((database.now(tx) - clock.ticked_at).total_seconds(), 0.0)
        due = min(int(elapsed / clock.interval_seconds), AUTO_TICKS_MAX)
        return AutoTicks(due, elapsed, _advance(tx, tenant_id, clock, due) if due else clock)


def set_interval(tenant_id: UUID, interval_seconds: float) -> None:
    """Set the seconds of real time that an automatic call counts as a tick."""
    with database.tenant(tenant_id) as tx:
        decay_clocks.set_interval(tx, tenant_id, interval_seconds)


def reset_clock(tx: database.Transaction, tenant_id: UUID) -> None:
    """Set the clock to tick 0 and delete the history."""
    activation_history.delete_all(tx, tenant_id)
    decay_clocks.delete_averages(tx, tenant_id)
    decay_clocks.set_tick(tx, tenant_id, 0, database.now(tx))


def record_activation(tenant_id: UUID, memory_ids: list[UUID]) -> None:
    """Record the current activation of these memories as that of the current tick."""
    with database.tenant(tenant_id) as tx:
        clock = _locked(tx, tenant_id)
        held = states.read(tx, tenant_id, sorted(memory_ids))
        now = database.now(tx).timestamp()
        times = memory_strength.load_timeline(tx, tenant_id)
        held = memory_strength.advance_to_era(held, times, now)
        ticks = np.full(len(held), clock.tick)
        anchors = _anchors(held, ticks, times.at(now).version, np.arange(len(held)))
        activation_history.add(tx, tenant_id, anchors, is_shown=True)


def list_history(tenant_id: UUID, memory_id: UUID, first: int | None, last: int | None) -> list[HistoryPoint]:
    """Return a memory's activation at the newest `HISTORY_TICKS` ticks, optionally only from `first` to `last`.

    The history starts when the memory's decay first advances by a tick, or earlier, when a search finds the memory.
    """
    with database.tenant(tenant_id) as tx:
        clock = _locked(tx, tenant_id)
        anchors = activation_history.list_anchors(tx, tenant_id, memory_id)
        recorded = {each.tick: each.recorded_at for each in decay_clocks.list_averages(tx, tenant_id)}
        eras = {era.version: era for era in memory_strength.load_timeline(tx, tenant_id).eras}
    lowest = clock.tick - HISTORY_TICKS + 1 if first is None else max(first, clock.tick - HISTORY_TICKS + 1)
    highest = clock.tick if last is None else min(last, clock.tick)
    points: dict[int, HistoryPoint] = {}
    for place, anchor in enumerate(anchors):
        if anchor.is_shown and lowest <= anchor.tick <= highest:
            points[anchor.tick] = HistoryPoint(
                anchor.tick, anchor.storage, anchor.retrieval, anchor.stability, anchor.recorded_at
            )
        until = min(highest, anchors[place + 1].tick if place + 1 < len(anchors) else highest)
        ticks = np.arange(max(lowest, anchor.tick + 1), until + 1)
        if not ticks.size or anchor.version not in eras:
            continue
        state = _after_ticks(eras[anchor.version], _restored([anchor] * len(ticks)), ticks - anchor.tick)
        columns = (_storage(state), state.retrieval, state.stability)
        for tick, storage, retrieval, stability in zip(ticks.tolist(), *columns, strict=True):
            at = recorded.get(tick, anchor.recorded_at)
            points[tick] = HistoryPoint(tick, float(storage), float(retrieval), float(stability), at)
    return [points[tick] for tick in sorted(points)]


def _locked(tx: database.Transaction, tenant_id: UUID) -> DecayClock:
    clock = decay_clocks.read(tx, tenant_id, locked=True)
    if clock is None:
        raise Conflict("the tenant has no decay clock: the deletion of the tenant has removed it")
    return clock


def _advance(tx: database.Transaction, tenant_id: UUID, clock: DecayClock, count: int) -> DecayClock:
    sums, memories, after = np.zeros((min(count, HISTORY_TICKS), 4)), 0, NIL
    call = TickCall(clock.tick, count, ticked_memories.list_later(tx, tenant_id, clock.tick + 1), sums)
    while True:
        page = states.list_page(tx, tenant_id, after, ROWS)
        if page.ids:
            memories += _advance_page(tx, tenant_id, page.ids, call)
            after = page.ids[-1]
        if len(page) < ROWS:
            break
    now, tick = database.now(tx), clock.tick + count
    decay_clocks.add_averages(tx, tenant_id, tick - len(sums) + 1, sums, memories)
    decay_clocks.delete_averages(tx, tenant_id, tick - HISTORY_TICKS + 1)
    activation_history.delete_before(tx, tenant_id, tick - HISTORY_TICKS + 1)
    decay_clocks.set_tick(tx, tenant_id, tick, now)
    return clock._replace(tick=tick, ticked_at=now)


def _advance_page(tx: database.Transaction, tenant_id: UUID, memory_ids: list[UUID], call: TickCall) -> int:
    """Advance memories, add their activation to the sums of the call, and return their number."""
    held = states.lock(tx, tenant_id, memory_ids)
    now = database.now(tx).timestamp()  # after locking: a previous writer may have used a newer policy
    times = memory_strength.load_timeline(tx, tenant_id)
    era, held = times.at(now), memory_strength.advance_to_era(held, times, now)
    waiting = np.array([max(call.later.get(memory_id, 0) - call.tick - 1, 0) for memory_id in held.ids], np.int64)
    _record_changed(tx, tenant_id, held, era, call, waiting)
    count, sums = call.ticks, call.sums
    state = _after_ticks(era, held.state, np.clip(count - len(sums) - waiting, 0, None))
    for place in range(len(sums)):
        state = _after_ticks(era, state, waiting < count - len(sums) + place + 1)
        at_risk = np.count_nonzero(state.retrieval < ticked_memories.AT_RISK_BELOW)
        sums[place] += _storage(state).sum(), state.retrieval.sum(), state.stability.sum(), at_risk
    anchored = replace(held, state=replace(state, anchored_at=np.full_like(state.anchored_at, now)))
    # The next sweep recomputes the due times, which the ticks have brought nearer.
    states.write_anchors(tx, tenant_id, anchored, era.version)
    return len(held)


def _record_changed(
    tx: database.Transaction,
    tenant_id: UUID,
    held: StoredStates,
    era: Era,
    call: TickCall,
    waiting: npt.NDArray[np.int64],
) -> None:
    """Store the states of memories whose activation doesn't follow from their latest stored state.

    Args:
        waiting: For each memory, the number of ticks of the call before its decay begins.
    """
    rows = np.flatnonzero(waiting < call.ticks)
    latest = activation_history.read_latest(tx, tenant_id, [held.ids[row] for row in rows])
    known = np.array([row for row in rows if held.ids[row] in latest], np.intp)
    former = [latest[held.ids[row]] for row in known]
    expected = _after_ticks(era, _restored(former), [call.tick - anchor.tick for anchor in former])
    pairs = [(_storage(expected), _storage(held.state)[known])]
    pairs += [(getattr(expected, name), getattr(held.state, name)[known]) for name in _RECORDED]
    follows = np.array([anchor.version == era.version for anchor in former], np.bool_)
    for before, after in pairs:
        follows &= np.abs(before - after) < _TOLERANCE
    changed = np.setdiff1d(rows, known[follows])
    activation_history.add(tx, tenant_id, _anchors(held, call.tick + waiting, era.version, changed))


def _anchors(held: StoredStates, ticks: npt.NDArray[np.int64], version: int, rows: npt.NDArray[np.intp]) -> TickAnchors:
    state = held.state
    return TickAnchors(
        [held.ids[row] for row in rows],
        ticks[rows],
        _storage(state)[rows],
        state.retrieval[rows],
        state.stability[rows],
        state.salience[rows],
        state.kind[rows],
        np.full(len(rows), version),
    )


def _restored(anchors: Sequence[TickAnchor]) -> State:
    """Return the states of these anchors, as of time 0."""

    def column(name: str) -> Floats:
        return np.array([getattr(anchor, name) for anchor in anchors], np.float64)

    state = new(np.zeros(len(anchors)), salience=column("salience"), kind=column("kind").astype(np.int64))
    level = np.log(np.maximum(column("storage"), STRENGTH_MIN))
    return replace(state, level=level, retrieval=column("retrieval"), stability=column("stability"))


def _after_ticks(era: Era, state: State, ticks: npt.ArrayLike) -> State:
    """Return the states after this many ticks each.

    The states are anchored at time 0, which avoids rounding errors.
    """
    model = era.dynamics
    if not isinstance(model, MemoryDecay):
        raise Conflict(f"the tenant's policy uses the profile {model.name!r}: ticks need {PROFILE!r}")
    at_zero: State = replace(state, anchored_at=np.zeros_like(state.anchored_at))
    return model.advance(at_zero, np.asarray(ticks, np.float64) * model.parameters.tick_seconds)


def _storage(state: State) -> Floats:
    return np.exp(np.clip(state.level, np.log(STRENGTH_MIN), 0.0))
