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
from app.domain.ingest.ids import RANDOM_BYTES, new_base
from app.domain.ingest.touch import Touches, Use, encode, touches_of_search
from app.domain.strength.reinforcement import Moments, Reinforced, Uses, reinforced, rested
from app.errors import BacklogFull, Unavailable
from app.services.search import search_records
from app.services.storage import lookup
from app.services.storage.memory_write import MemoryWrite, memory_write
from app.services.strength import associates, promotion, strengths
from app.services.tiers import cold_restore, restores
from app.store.core import database
from app.store.core.packed import round_to_microseconds
from app.store.ingest import arrivals
from app.store.memories import events
from app.store.memories.events import Change, EventKind
from app.store.strength import states
from app.store.strength import uses as store
from app.store.strength.states import Held
from app.store.tiers import cold

log = structlog.get_logger(__name__)


class Touched(NamedTuple):
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
class Touch:
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


class _Told(NamedTuple):
    """A use of an existing memory: the envelope that reported it and its touches, the memory's row, and the time."""

    envelope: int
    touches: Touches
    row: int
    at: float
    use: Use


@dataclass(frozen=True, slots=True)
class _Done:
    """The effect of uses: the memories concerned before and after them, both in the era of `now`.

    Attributes:
        known_as: Stored memory ids by the alias given.
    """

    now: float
    era: Era
    known_as: Mapping[UUID, UUID]
    before: Held
    after: Held
    counts: dict[str, int]


def apply(tenant_id: UUID, touched: Sequence[Touched]) -> None:
    """Reinforce the memories that these envelopes report as used, in one transaction. Idempotent per envelope.

    Envelopes are applied in the given order, the uses of each in order of time. Unknown ids are ignored.
    """
    by_base = {each.base: each for each in touched}
    with memory_write(tenant_id, "state") as write:
        fresh = arrivals.note_fresh(write.tx, tenant_id, dict.fromkeys(by_base, 0))
        done = _reinforce(write, [each for base, each in by_base.items() if base in fresh])
        used = {done.known_as.get(use.id, use.id) for each in touched for use in each.touches.uses}
        frozen = list(cold.places(write.tx, tenant_id, list(used)))
    if frozen:
        cold_restore.start(tenant_id, frozen)
    _attach(tenant_id, done, [each for each in by_base.values() if each.base in fresh])
    for name, count in done.counts.items():
        metrics.count(name, count)


def send(tenant_id: UUID, uses: Sequence[Use], session: str | None, request_id: str) -> None:
    """Queue a search's uses. Uses that the queue can't accept are counted and dropped.

    No task is started: the drain that runs every second applies them, since a drain per search would cost as much as
    the search.
    """
    base = new_base(time.time_ns() // 1_000_000, os.urandom(RANDOM_BYTES))
    try:
        stream.append(tenant_id, base, "touches", request_id, encode(touches_of_search(uses, tenant_id, session)))
    except (BacklogFull, Unavailable) as error:
        metrics.DROPPED_TOUCHES.inc()
        log.info("touches_dropped", tenant=str(tenant_id), error=type(error).__name__)


def touch(tenant_id: UUID, memory_id: UUID, touches: Touches) -> Touch:
    """Reinforce one memory synchronously.

    Raises:
        NotFound: This tenant has no such memory.
        Unavailable: The memory is still in the queue.
    """
    touched = [Touched(b"", np.inf, touches)]
    with lookup.stored_only(tenant_id, memory_id), memory_write(tenant_id, "state") as write:
        done = _reinforce(write, touched)
        stored_id = done.known_as.get(memory_id, memory_id)
        if stored_id not in done.before.ids:
            raise lookup.Missing
        frozen = list(cold.places(write.tx, tenant_id, [stored_id]))
    if frozen:
        cold_restore.start(tenant_id, frozen)
    _attach(tenant_id, done, touched)
    for name, count in done.counts.items():
        metrics.count(name, count)
    place = np.array([done.before.ids.index(stored_id)])
    model, before, after = done.era.dynamics, done.before.only(place).state, done.after.only(place).state
    return Touch(
        id=stored_id,
        strength=(float(model.strength(before, done.now)[0]), float(model.strength(after, done.now)[0])),
        score=(float(model.score(before, done.now)[0]), float(model.score(after, done.now)[0])),
        access_count=int(after.access_count[0]),
        multiplier=float(after.multiplier[0]),
        why="refractory" if done.counts["refractory_uses"] else "late" if done.counts["late_uses"] else None,
    )


def _attach(tenant_id: UUID, done: _Done, touched: Sequence[Touched]) -> None:
    """Attribute reported uses to the recorded searches that found the memories, if the tenant records searches.

    This runs in a transaction after that of the uses, so that memory states aren't locked while it waits for the
    records.
    """
    if not done.era.policy.record_searches:
        return
    reported = [each for each in touched if not each.touches.by_search]
    told = _told(reported, done.before.ids, done.known_as, done.now)
    used = [search_records.Used(done.before.ids[one.row], one.touches.session, one.at) for one in told]
    search_records.attach_uses(tenant_id, used)


def _reinforce(write: MemoryWrite, touched: Sequence[Touched]) -> _Done:
    tx, tenant_id = write.tx, write.tenant_id
    given = {use.id for each in touched for use in each.touches.uses}
    known_as = store.aliases(tx, tenant_id, given)
    stored = {known_as.get(memory_id, memory_id) for memory_id in given}
    spreading = strengths.timeline(tx, tenant_id).at(database.now(tx).timestamp())
    along = associates.reached(tx, tenant_id, spreading, list(stored))
    locked = states.lock(tx, tenant_id, list(stored.union(*along.values())))
    # Read after locking: a previous writer may have used a newer policy.
    now = float(round_to_microseconds(database.now(tx).timestamp()))
    times = strengths.timeline(tx, tenant_id)
    era = times.at(now)
    before = strengths.advance_to_era(locked, times, now)
    told = _told(touched, before.ids, known_as, now)
    uses, counting, elsewhere = _counting(tx, tenant_id, era, before.ids, told)
    done = reinforced(era.dynamics, before.state, uses, now)
    _note(tx, tenant_id, before.ids, uses, done)
    used_by = _used_by(counting, done, before.ids)
    used = replace(before, state=done.state)
    after, stabler = associates.strengthen(tx, tenant_id, era, used, along, used=used_by, now=now)
    places = np.union1d(uses.rows, stabler)
    crossed = np.bincount(uses.rows[elsewhere & ~done.late], minlength=len(after))[places]
    strengths.write_uses(tx, tenant_id, after.only(places), era, now, crossed)
    promotion.flag(tx, tenant_id, after.only(np.unique(uses.rows)), era, now)
    after = restores.restore_used(write, after, np.unique(uses.rows[~done.late]), era, now)
    counts = {
        "unknown_uses": sum(len(each.touches.uses) for each in touched) - len(told),
        "refractory_uses": len(told) - len(uses),
        "late_uses": int(done.late.sum()),
        "reinforced_uses": int((~done.late).sum()),
    }
    return _Done(now, era, known_as, before, after, counts)


def _told(
    touched: Sequence[Touched], memory_ids: Sequence[UUID], known_as: Mapping[UUID, UUID], now: float
) -> list[_Told]:
    """Return the uses of existing memories by envelope, then by time; times in the future count as now."""
    rows = {memory_id: row for row, memory_id in enumerate(memory_ids)}
    rows |= {alias: rows[memory_id] for alias, memory_id in known_as.items() if memory_id in rows}
    told = []
    for envelope, (_, accepted_at, touches) in enumerate(touched):
        there = [use for use in touches.uses if use.id in rows]
        uses = [
            _Told(envelope, touches, rows[use.id], min(accepted_at if use.at is None else use.at, now), use)
            for use in there
        ]
        told += sorted(uses, key=lambda one: one.at)
    return told


def _counting(
    tx: database.Transaction, tenant_id: UUID, era: Era, memory_ids: Sequence[UUID], told: Sequence[_Told]
) -> tuple[Uses, Sequence[_Told], npt.NDArray[np.bool_]]:
    """Return the uses outside the refractory time, as arrays and as reported, and which get the cross-domain boost."""
    uses = Uses(
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
        ids, sessions, at = store.recent(tx, tenant_id, used, uses.sessions, uses.at, seconds)
        known = Moments(np.array([rows[memory_id] for memory_id in ids], np.intp), sessions, at)
        counting = rested(uses, known, seconds)
        uses, told = uses.only(counting), [told[place] for place in counting]
    elsewhere = _elsewhere(tx, tenant_id, era, memory_ids, told)
    return replace(uses, boost=uses.boost | elsewhere), told, elsewhere


def _elsewhere(
    tx: database.Transaction, tenant_id: UUID, era: Era, memory_ids: Sequence[UUID], told: Sequence[_Told]
) -> npt.NDArray[np.bool_]:
    """Return which uses came from another domain than their memory's, if the forgetting model considers domains."""
    elsewhere = np.zeros(len(told), np.bool_)
    tagged = [place for place, one in enumerate(told) if one.touches.context_tags]
    if not tagged or not isinstance(era.dynamics, Mnemex):
        return elsewhere
    tags = store.tags(tx, tenant_id, list({memory_ids[told[place].row] for place in tagged}))
    for place in tagged:
        one = told[place]
        own = tags.get(memory_ids[one.row], ())
        elsewhere[place] = is_other_domain(era.dynamics.parameters, own, one.touches.context_tags)
    return elsewhere


def _used_by(told: Sequence[_Told], done: Reinforced, memory_ids: Sequence[UUID]) -> list[dict[UUID, float]]:
    """Return the memories that each envelope used, with the time of the last use, without late uses."""
    used: dict[int, dict[UUID, float]] = {}
    for one, late in zip(told, done.late, strict=True):
        if not late:
            moments = used.setdefault(one.envelope, {})
            memory_id = memory_ids[one.row]
            moments[memory_id] = max(one.at, moments.get(memory_id, one.at))
    return list(used.values())


def _note(tx: database.Transaction, tenant_id: UUID, memory_ids: Sequence[UUID], uses: Uses, done: Reinforced) -> None:
    """Add the uses to the history."""
    kinds: tuple[tuple[EventKind, npt.NDArray[np.bool_]], ...] = (("use", ~done.late), ("late_use", done.late))
    for kind, chosen in kinds:
        places = np.flatnonzero(chosen)
        change = Change(
            uses.at[places], done.before[places], done.after[places], done.after[places], uses.sessions[places]
        )
        events.add(tx, tenant_id, kind, [memory_ids[row] for row in uses.rows[places]], change)
