"""Reinforcement: strengthen used memories, counting each use exactly once even across crashes."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt
import structlog

from app import metrics
from app.clients.redis import stream
from app.domain.dynamics.mnemex import Mnemex, is_other_domain
from app.domain.dynamics.timeline import Era
from app.domain.ingest.ids import RANDOM_BYTES, generate_base
from app.domain.ingest.uses import Touches, Use, encode, touch_results
from app.domain.strength.counted_uses import OrderedUses, ReinforcementResult, UseTimes, apply_uses, effective_uses
from app.errors import BacklogFull, Unavailable
from app.services.search import search_records
from app.services.storage import lookup
from app.services.storage.memory_write import MemoryWrite, memory_write
from app.services.strength import linked_reinforcement, memory_strength, promotion
from app.services.tiers import cold_restore, reactivation
from app.store.core import database
from app.store.core.binary_arrays import round_to_microseconds
from app.store.ingest import envelopes
from app.store.memories import history
from app.store.memories.history import EventChange, EventKind
from app.store.strength import recorded_uses, states
from app.store.strength.states import StoredStates
from app.store.tiers import cold_segments

log = structlog.get_logger(__name__)


class EnvelopeTouches(NamedTuple):
    """The touches of one envelope.

    Attributes:
        base: The envelope's 16-byte key in the arrivals ledger.
        accepted_at: Seconds since 1970.
        touches: The reported uses.
    """

    base: bytes
    accepted_at: float
    touches: Touches


@dataclass(frozen=True, slots=True)
class TouchEffect:
    """The effect of a touch on one memory: strength (0 to 1) and the model's score, each before and after it.

    Attributes:
        why: The reason why it isn't stronger: the same session touched it within the refractory time, or a later use is
            already known.
    """

    id: UUID
    strength: tuple[float, float]
    score: tuple[float, float]
    access_count: int
    multiplier: float
    why: Literal["refractory", "late"] | None


class _ReportedUse(NamedTuple):
    """A use of an existing memory: the envelope that reported it and its touches, the memory's row, and the time."""

    envelope: int
    touches: Touches
    row: int
    at: float
    use: Use


@dataclass(frozen=True, slots=True)
class _UseEffect:
    """The effect of uses: the memories concerned before and after them, both in the era of `now`.

    Attributes:
        known_as: Stored memory ids by the alias given.
    """

    now: float
    era: Era
    known_as: Mapping[UUID, UUID]
    before: StoredStates
    after: StoredStates
    counts: dict[str, int]


def reinforce_used(tenant_id: UUID, touched: Sequence[EnvelopeTouches]) -> None:
    """Reinforce the memories that these envelopes report as used, in one transaction. Idempotent per envelope.

    Envelopes are applied in the given order, the uses of each in order of time. Unknown ids are ignored.
    """
    by_base = {each.base: each for each in touched}
    with memory_write(tenant_id, "state") as write:
        fresh = envelopes.insert_fresh(write.tx, tenant_id, dict.fromkeys(by_base, 0))
        done = _reinforce(write, [each for base, each in by_base.items() if base in fresh])
        used = {done.known_as.get(use.id, use.id) for each in touched for use in each.touches.uses}
        frozen = list(cold_segments.list_locations(write.tx, tenant_id, list(used)))
    if frozen:
        cold_restore.start(tenant_id, frozen)
    _attach_to_searches(tenant_id, done, [each for each in by_base.values() if each.base in fresh])
    for name, count in done.counts.items():
        metrics.count(name, count)


def queue_uses(tenant_id: UUID, uses: Sequence[Use], session: str | None, request_id: str) -> None:
    """Queue a search's uses. Uses that the queue can't accept are counted and dropped.

    No task is started: the drain that runs every second applies them, since a drain per search would cost as much as
    the search.
    """
    base = generate_base(time.time_ns() // 1_000_000, os.urandom(RANDOM_BYTES))
    try:
        stream.append(tenant_id, base, "touches", request_id, encode(touch_results(uses, tenant_id, session)))
    except (BacklogFull, Unavailable) as error:
        metrics.DROPPED_TOUCHES.inc()
        log.info("touches_dropped", tenant=str(tenant_id), error=type(error).__name__)


def touch_memory(tenant_id: UUID, memory_id: UUID, touches: Touches) -> TouchEffect:
    """Reinforce one memory synchronously.

    Raises:
        NotFound: This tenant has no such memory.
        Unavailable: The memory is still in the queue.
    """
    touched = [EnvelopeTouches(b"", np.inf, touches)]
    with lookup.stored_only(tenant_id, memory_id), memory_write(tenant_id, "state") as write:
        done = _reinforce(write, touched)
        stored_id = done.known_as.get(memory_id, memory_id)
        if stored_id not in done.before.ids:
            raise lookup.Missing
        frozen = list(cold_segments.list_locations(write.tx, tenant_id, [stored_id]))
    if frozen:
        cold_restore.start(tenant_id, frozen)
    _attach_to_searches(tenant_id, done, touched)
    for name, count in done.counts.items():
        metrics.count(name, count)
    place = np.array([done.before.ids.index(stored_id)])
    model, before, after = done.era.dynamics, done.before.only(place).state, done.after.only(place).state
    return TouchEffect(
        id=stored_id,
        strength=(float(model.strength(before, done.now)[0]), float(model.strength(after, done.now)[0])),
        score=(float(model.score(before, done.now)[0]), float(model.score(after, done.now)[0])),
        access_count=int(after.access_count[0]),
        multiplier=float(after.multiplier[0]),
        why="refractory" if done.counts["refractory_uses"] else "late" if done.counts["late_uses"] else None,
    )


def _attach_to_searches(tenant_id: UUID, done: _UseEffect, touched: Sequence[EnvelopeTouches]) -> None:
    """Attribute reported uses to the recorded searches that found the memories, if the tenant records searches.

    This runs in a transaction after that of the uses, so that memory states aren't locked while it waits for the
    records.
    """
    if not done.era.policy.record_searches:
        return
    reported = [each for each in touched if not each.touches.by_search]
    told = _list_uses(reported, done.before.ids, done.known_as, done.now)
    used = [search_records.ReportedUse(done.before.ids[one.row], one.touches.session, one.at) for one in told]
    search_records.attach_uses(tenant_id, used)


def _reinforce(write: MemoryWrite, touched: Sequence[EnvelopeTouches]) -> _UseEffect:
    tx, tenant_id = write.tx, write.tenant_id
    given = {use.id for each in touched for use in each.touches.uses}
    known_as = recorded_uses.read_aliases(tx, tenant_id, given)
    stored = {known_as.get(memory_id, memory_id) for memory_id in given}
    spreading = memory_strength.load_timeline(tx, tenant_id).at(database.now(tx).timestamp())
    along = linked_reinforcement.list_reached(tx, tenant_id, spreading, list(stored))
    locked = states.lock(tx, tenant_id, list(stored.union(*along.values())))
    # Read after locking: a previous writer may have used a newer policy.
    now = float(round_to_microseconds(database.now(tx).timestamp()))
    times = memory_strength.load_timeline(tx, tenant_id)
    era = times.at(now)
    before = memory_strength.advance_to_era(locked, times, now)
    told = _list_uses(touched, before.ids, known_as, now)
    uses, counting, elsewhere = _effective_uses(tx, tenant_id, era, before.ids, told)
    done = apply_uses(era.dynamics, before.state, uses, now)
    _record_uses(tx, tenant_id, before.ids, uses, done)
    used_by = _memories_by_envelope(counting, done, before.ids)
    used = replace(before, state=done.state)
    after, stabler = linked_reinforcement.strengthen_linked(tx, tenant_id, era, used, along, used=used_by, now=now)
    places = np.union1d(uses.rows, stabler)
    crossed = np.bincount(uses.rows[elsewhere & ~done.late], minlength=len(after))[places]
    memory_strength.write_uses(tx, tenant_id, after.only(places), era, now, crossed)
    promotion.flag_promoted(tx, tenant_id, after.only(np.unique(uses.rows)), era, now)
    after = reactivation.restore_used(write, after, np.unique(uses.rows[~done.late]), era, now)
    counts = {
        "unknown_uses": sum(len(each.touches.uses) for each in touched) - len(told),
        "refractory_uses": len(told) - len(uses),
        "late_uses": int(done.late.sum()),
        "reinforced_uses": int((~done.late).sum()),
    }
    return _UseEffect(now, era, known_as, before, after, counts)


def _list_uses(
    touched: Sequence[EnvelopeTouches], memory_ids: Sequence[UUID], known_as: Mapping[UUID, UUID], now: float
) -> list[_ReportedUse]:
    """Return the uses of existing memories by envelope, then by time; times in the future count as now."""
    rows = {memory_id: row for row, memory_id in enumerate(memory_ids)}
    rows |= {alias: rows[memory_id] for alias, memory_id in known_as.items() if memory_id in rows}
    told = []
    for envelope, (_, accepted_at, touches) in enumerate(touched):
        there = [use for use in touches.uses if use.id in rows]
        uses = [
            _ReportedUse(envelope, touches, rows[use.id], min(accepted_at if use.at is None else use.at, now), use)
            for use in there
        ]
        told += sorted(uses, key=lambda one: one.at)
    return told


def _effective_uses(
    tx: database.Transaction, tenant_id: UUID, era: Era, memory_ids: Sequence[UUID], told: Sequence[_ReportedUse]
) -> tuple[OrderedUses, Sequence[_ReportedUse], npt.NDArray[np.bool_]]:
    """Return the uses outside the refractory time, as arrays and as reported, and which get the cross-domain boost."""
    uses = OrderedUses(
        rows=np.array([one.row for one in told], np.intp),
        sessions=np.array([one.touches.session for one in told], np.int64),
        at=round_to_microseconds([one.at for one in told]),
        boost=np.array([one.touches.boost for one in told], np.bool_),
        place=np.array([one.use.place for one in told], np.float64),
        margin=np.array([one.use.margin for one in told], np.float64),
        lexical=np.array([one.use.lexical for one in told], np.bool_),
    )
    seconds = era.policy.reinforcement.refractory_seconds
    if told and seconds > 0:
        rows = {memory_id: row for row, memory_id in enumerate(memory_ids)}
        used = [memory_ids[row] for row in uses.rows]
        ids, sessions, at = recorded_uses.list_recent(tx, tenant_id, used, uses.sessions, uses.at, seconds)
        known = UseTimes(np.array([rows[memory_id] for memory_id in ids], np.intp), sessions, at)
        counting = effective_uses(uses, known, seconds)
        uses, told = uses.only(counting), [told[place] for place in counting]
    elsewhere = _from_other_domain(tx, tenant_id, era, memory_ids, told)
    return replace(uses, boost=uses.boost | elsewhere), told, elsewhere


def _from_other_domain(
    tx: database.Transaction, tenant_id: UUID, era: Era, memory_ids: Sequence[UUID], told: Sequence[_ReportedUse]
) -> npt.NDArray[np.bool_]:
    """Return which uses came from another domain than their memory's, if the forgetting model considers domains."""
    elsewhere = np.zeros(len(told), np.bool_)
    tagged = [place for place, one in enumerate(told) if one.touches.context_tags]
    if not tagged or not isinstance(era.dynamics, Mnemex):
        return elsewhere
    tags = recorded_uses.read_tags(tx, tenant_id, list({memory_ids[told[place].row] for place in tagged}))
    for place in tagged:
        one = told[place]
        own = tags.get(memory_ids[one.row], ())
        elsewhere[place] = is_other_domain(era.dynamics.parameters, own, one.touches.context_tags)
    return elsewhere


def _memories_by_envelope(
    told: Sequence[_ReportedUse], done: ReinforcementResult, memory_ids: Sequence[UUID]
) -> list[dict[UUID, float]]:
    """Return the memories that each envelope used, with the time of the last use, without late uses."""
    used: dict[int, dict[UUID, float]] = {}
    for one, late in zip(told, done.late, strict=True):
        if not late:
            moments = used.setdefault(one.envelope, {})
            memory_id = memory_ids[one.row]
            moments[memory_id] = max(one.at, moments.get(memory_id, one.at))
    return list(used.values())


def _record_uses(
    tx: database.Transaction, tenant_id: UUID, memory_ids: Sequence[UUID], uses: OrderedUses, done: ReinforcementResult
) -> None:
    """Add the uses to the history."""
    kinds: tuple[tuple[EventKind, npt.NDArray[np.bool_]], ...] = (("use", ~done.late), ("late_use", done.late))
    for kind, chosen in kinds:
        places = np.flatnonzero(chosen)
        change = EventChange(
            uses.at[places], done.before[places], done.after[places], done.after[places], uses.sessions[places]
        )
        history.add(tx, tenant_id, kind, [memory_ids[row] for row in uses.rows[places]], change)
