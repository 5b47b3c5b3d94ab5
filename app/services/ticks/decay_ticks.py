"""Advance a tenant's decay by ticks, as memory-decay's API asks for it.

A tick changes the state from which strength is computed, and nothing else: acceptance, expiry, holds, erasures and the
audit log use real time. The tenant's policy has ticks of a year, so that real time alone doesn't weaken its memories.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.memory_decay import MemoryDecay
from app.domain.dynamics.ops import Floats
from app.domain.dynamics.state import State
from app.domain.dynamics.timeline import Era
from app.errors import Conflict
from app.services.strength import memory_strength
from app.services.tenants import policy_versions
from app.services.tenants.policy_versions import RequestedChange
from app.store.core import database
from app.store.enrichment.work_queue import NIL
from app.store.strength import states
from app.store.ticks import decay_clocks, ticked_memories
from app.store.ticks.decay_clocks import DecayClock, Snapshots

INTERVAL_SECONDS: Final = 3600.0
"""Seconds of real time per tick of a new clock."""
AUTO_TICKS_MAX: Final = 100
"""Maximum number of ticks of one automatic call."""
HISTORY_TICKS: Final = 200
"""Number of newest ticks whose snapshots are retained."""
PROFILE: Final = "memory_decay"
REAL_TICK_SECONDS: Final = 31_536_000
"""Length of a tick in real time: the longest that the profile allows."""
ROWS: Final = 500

_POLICY: Final = {"forgetting": {"profile": PROFILE, "parameters": {"tick_seconds": REAL_TICK_SECONDS}}}


class AutoTicks(NamedTuple):
    """The ticks that the elapsed time amounted to, and the clock after them."""

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
    """Set the clock to tick 0 and delete all snapshots."""
    decay_clocks.delete_all(tx, tenant_id)
    decay_clocks.set_tick(tx, tenant_id, 0, database.now(tx))


def record_activation(tenant_id: UUID, memory_ids: list[UUID]) -> None:
    """Record the current activation of these memories as that of the current tick."""
    with database.tenant(tenant_id) as tx:
        clock = _locked(tx, tenant_id)
        found = list(ticked_memories.read(tx, tenant_id, memory_ids).values())
        columns = np.array([(row.storage, row.retrieval, row.stability) for row in found]).reshape(-1, 3).T
        taken = Snapshots([row.memory_id for row in found], [clock.tick] * len(found), *columns)
        decay_clocks.add_snapshots(tx, tenant_id, taken)


def _locked(tx: database.Transaction, tenant_id: UUID) -> DecayClock:
    clock = decay_clocks.read(tx, tenant_id, locked=True)
    if clock is None:
        raise Conflict("the tenant has no decay clock: its deletion has removed it")
    return clock


def _advance(tx: database.Transaction, tenant_id: UUID, clock: DecayClock, count: int) -> DecayClock:
    after, later = NIL, ticked_memories.list_later(tx, tenant_id, clock.tick + 1)
    while True:
        page = states.list_page(tx, tenant_id, after, ROWS)
        if page.ids:
            _advance_page(tx, tenant_id, page.ids, later, clock, count)
            after = page.ids[-1]
        if len(page) < ROWS:
            break
    now = database.now(tx)
    decay_clocks.delete_before(tx, tenant_id, clock.tick + count - HISTORY_TICKS + 1)
    decay_clocks.set_tick(tx, tenant_id, clock.tick + count, now)
    return clock._replace(tick=clock.tick + count, ticked_at=now)


def _advance_page(
    tx: database.Transaction,
    tenant_id: UUID,
    memory_ids: list[UUID],
    later: Mapping[UUID, int],
    clock: DecayClock,
    count: int,
) -> None:
    """Advance memories and record their activation at each of the last `HISTORY_TICKS` ticks.

    Args:
        later: Tick of creation of the memories that were submitted for a later tick; until then, they don't decay.
    """
    held = states.lock(tx, tenant_id, memory_ids)
    now = database.now(tx).timestamp()  # after locking: a previous writer may have used a newer policy
    times = memory_strength.load_timeline(tx, tenant_id)
    era, held = times.at(now), memory_strength.advance_to_era(held, times, now)
    waiting = np.array([max(later.get(memory_id, 0) - clock.tick - 1, 0) for memory_id in held.ids])
    unrecorded = max(count - HISTORY_TICKS, 0)
    state = _after_ticks(era, held.state, np.clip(unrecorded - waiting, 0, None))
    taken = []
    for ticks in range(unrecorded + 1, count + 1):
        fading = waiting < ticks
        state = _after_ticks(era, state, fading.astype(np.float64))
        taken.append(_snapshot(held.ids, state, np.flatnonzero(fading), clock.tick + ticks))
    decay_clocks.add_snapshots(tx, tenant_id, _joined(taken))
    anchored = replace(held, state=replace(state, anchored_at=np.full_like(state.anchored_at, now)))
    # The next sweep recomputes the due times, which the ticks have brought nearer.
    states.write_anchors(tx, tenant_id, anchored, era.version)


def _after_ticks(era: Era, state: State, ticks: npt.ArrayLike) -> State:
    """Return the states after this many ticks each, anchored at 0 to be exact."""
    model = era.dynamics
    if not isinstance(model, MemoryDecay):
        raise Conflict(f"the tenant's policy uses the profile {model.name!r}: ticks need {PROFILE!r}")
    at_zero: State = replace(state, anchored_at=np.zeros_like(state.anchored_at))
    return model.advance(at_zero, np.asarray(ticks, np.float64) * model.parameters.tick_seconds)


def _snapshot(ids: list[UUID], state: State, rows: npt.NDArray[np.intp], tick: int) -> Snapshots:
    storage = np.exp(np.minimum(state.level[rows], 0.0))
    return Snapshots(
        [ids[row] for row in rows], [tick] * len(rows), storage, state.retrieval[rows], state.stability[rows]
    )


def _joined(taken: list[Snapshots]) -> Snapshots:
    ids = [memory_id for each in taken for memory_id in each.ids]
    ticks = [tick for each in taken for tick in each.ticks]

    def column(name: str) -> Floats:
        return np.concatenate([getattr(each, name) for each in taken]) if taken else np.empty(0)

    return Snapshots(ids, ticks, column("storage"), column("retrieval"), column("stability"))
