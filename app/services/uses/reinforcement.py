"""Reinforcement: strengthen used memories, counting each use exactly once even across crashes.

A touch is a reported use as it arrives, one memory in an envelope of the stream. It comes from a search, from an
observation (`POST /v1/observations`), or from a call of the touch route. A use is a touch that counts.
"""

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
from app.services.uses import observed_reviews
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
    """The effect of a touch on one memory: strength (0 to 1) and the model's score, each before and after the touch.

    Attributes:
        why: The reason why the memory wasn't strengthened: `refractory` if the same session touched it within the
            refractory time, `late` if a later use is already recorded; None if it was strengthened.
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
    """The effect of uses: the states of the affected memories before and after, both in the era of `now`.

    Attributes:
        known_as: The stored memory's id for each alias in the uses.
    """

    now: float
    era: Era
    known_as: Mapping[UUID, UUID]
    before: StoredStates
    after: StoredStates
    counts: dict[str, int]


def reinforce_used(tenant_id: UUID, touched: Sequence[EnvelopeTouches]) -> None:
    """Reinforce the memories that these envelopes report as used, in one transaction. Idempotent per envelope.

    Envelopes are applied in the given order, and the uses of an envelope in order of time. Unknown ids are ignored.
    """
    by_base = {envelope.base: envelope for envelope in touched}
    with memory_write(tenant_id, "state") as write:
        fresh = envelopes.insert_fresh(write.tx, tenant_id, dict.fromkeys(by_base, 0))
        effect = _reinforce(write, [envelope for base, envelope in by_base.items() if base in fresh])
        counted = _filter_observations(touched, effect.era)
        used = {effect.known_as.get(use.id, use.id) for envelope in counted for use in envelope.touches.uses}
        cold_ids = list(cold_segments.list_locations(write.tx, tenant_id, list(used)))
    if cold_ids:
        cold_restore.start(tenant_id, cold_ids)
    _attach_to_searches(tenant_id, effect, [envelope for envelope in by_base.values() if envelope.base in fresh])
    for name, count in effect.counts.items():
        metrics.count(name, count)


def queue_uses(tenant_id: UUID, uses: Sequence[Use], session: str | None) -> None:
    """Queue a search's uses. Uses that the queue can't accept are counted and dropped.

    No task is started: the drain that runs every second applies the uses, because starting a drain for each search
    would cost as much as the search.
    """
    base = generate_base(time.time_ns() // 1_000_000, os.urandom(RANDOM_BYTES))
    try:
        stream.append(tenant_id, base, "touches", encode(touch_results(uses, tenant_id, session)))
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
        effect = _reinforce(write, touched, by_touch=True)
        stored_id = effect.known_as.get(memory_id, memory_id)
        if stored_id not in effect.before.ids:
            raise lookup.Missing
        cold_ids = list(cold_segments.list_locations(write.tx, tenant_id, [stored_id]))
    if cold_ids:
        cold_restore.start(tenant_id, cold_ids)
    _attach_to_searches(tenant_id, effect, touched)
    for name, count in effect.counts.items():
        metrics.count(name, count)
    row = np.array([effect.before.ids.index(stored_id)])
    model, before, after = effect.era.dynamics, effect.before.only(row).state, effect.after.only(row).state
    return TouchEffect(
        id=stored_id,
        strength=(float(model.strength(before, effect.now)[0]), float(model.strength(after, effect.now)[0])),
        score=(float(model.score(before, effect.now)[0]), float(model.score(after, effect.now)[0])),
        access_count=int(after.access_count[0]),
        multiplier=float(after.multiplier[0]),
        why="refractory" if effect.counts["refractory_uses"] else "late" if effect.counts["late_uses"] else None,
    )


def _attach_to_searches(tenant_id: UUID, done: _UseEffect, touched: Sequence[EnvelopeTouches]) -> None:
    """Attribute reported uses to the recorded searches that returned the memories, if the tenant records searches.

    Runs in its own transaction after the uses are committed, so that no memory state is locked while this transaction
    waits for a lock on a recorded search.
    """
    if not done.era.policy.record_searches:
        return
    reported = [envelope for envelope in touched if not envelope.touches.by_search]
    listed = _list_uses(reported, done.before.ids, done.known_as, done.now)
    used = [search_records.ReportedUse(done.before.ids[use.row], use.touches.session, use.at) for use in listed]
    search_records.attach_uses(tenant_id, used)


def _filter_observations(touched: Sequence[EnvelopeTouches], era: Era) -> list[EnvelopeTouches]:
    """Leave out envelopes of observations if the policy ignores observations; searches always count."""
    by_observation = era.policy.reinforcement.by_observation
    return [envelope for envelope in touched if by_observation or envelope.touches.by_search]


def _reinforce(write: MemoryWrite, touched: Sequence[EnvelopeTouches], *, by_touch: bool = False) -> _UseEffect:
    """Apply the uses of these envelopes.

    Args:
        by_touch: True for a call of the touch route, which isn't an observation: the policy can't ignore it.
    """
    tx, tenant_id = write.tx, write.tenant_id
    named_ids = {use.id for envelope in touched for use in envelope.touches.uses}
    known_as = recorded_uses.read_aliases(tx, tenant_id, named_ids)
    stored = {known_as.get(memory_id, memory_id) for memory_id in named_ids}
    spreading = memory_strength.load_timeline(tx, tenant_id).at(database.now(tx).timestamp())
    reached = linked_reinforcement.list_reached(tx, tenant_id, spreading, list(stored))
    locked = states.lock(tx, tenant_id, list(stored.union(*reached.values())))
    # Read after locking: a previous writer may have used a newer policy.
    now = float(round_to_microseconds(database.now(tx).timestamp()))
    times = memory_strength.load_timeline(tx, tenant_id)
    era = times.at(now)
    touched = touched if by_touch else _filter_observations(touched, era)
    before = memory_strength.advance_to_era(locked, times, now)
    reported = _list_uses(touched, before.ids, known_as, now)
    uses, counting, is_cross_domain = _effective_uses(tx, tenant_id, era, before.ids, reported)
    result = apply_uses(era.dynamics, before.state, uses, now)
    _record_uses(tx, tenant_id, before.ids, uses, result)
    used_by = _memories_by_envelope(counting, result, before.ids)
    used = replace(before, state=result.state)
    after, linked_rows = linked_reinforcement.strengthen_linked(
        tx, tenant_id, era, used, reached, used=used_by, now=now
    )
    changed_rows = np.union1d(uses.rows, linked_rows)
    cross_domain_counts = np.bincount(uses.rows[is_cross_domain & ~result.late], minlength=len(after))[changed_rows]
    memory_strength.write_uses(tx, tenant_id, after.only(changed_rows), era, now, cross_domain_counts)
    observed: dict[int, list[float]] = {}
    for place, use in enumerate(counting):
        if not (by_touch or use.touches.by_search or result.late[place]):
            observed.setdefault(use.row, []).append(use.at)
    observed_reviews.count_reviews(tx, tenant_id, era, before, observed, now)
    promotion.flag_promoted(tx, tenant_id, after.only(np.unique(uses.rows)), era, now)
    after = reactivation.restore_used(write, after, np.unique(uses.rows[~result.late]), era, now)
    counts = {
        "unknown_uses": sum(len(envelope.touches.uses) for envelope in touched) - len(reported),
        "refractory_uses": len(reported) - len(uses),
        "late_uses": int(result.late.sum()),
        "reinforced_uses": int((~result.late).sum()),
    }
    return _UseEffect(now, era, known_as, before, after, counts)


def _list_uses(
    touched: Sequence[EnvelopeTouches], memory_ids: Sequence[UUID], known_as: Mapping[UUID, UUID], now: float
) -> list[_ReportedUse]:
    """Return the uses of existing memories in order of envelope, then time; times in the future are clamped to now."""
    rows = {memory_id: row for row, memory_id in enumerate(memory_ids)}
    rows |= {alias: rows[memory_id] for alias, memory_id in known_as.items() if memory_id in rows}
    reported = []
    for envelope, (_, accepted_at, touches) in enumerate(touched):
        known_uses = [use for use in touches.uses if use.id in rows]
        uses = [
            _ReportedUse(envelope, touches, rows[use.id], min(accepted_at if use.at is None else use.at, now), use)
            for use in known_uses
        ]
        reported += sorted(uses, key=lambda item: item.at)
    return reported


def _effective_uses(
    tx: database.Transaction, tenant_id: UUID, era: Era, memory_ids: Sequence[UUID], told: Sequence[_ReportedUse]
) -> tuple[OrderedUses, Sequence[_ReportedUse], npt.NDArray[np.bool_]]:
    """Return the uses outside the refractory time, as arrays and as reported, and a mask of the cross-domain uses."""
    uses = OrderedUses(
        rows=np.array([use.row for use in told], np.intp),
        sessions=np.array([use.touches.session for use in told], np.int64),
        at=round_to_microseconds([use.at for use in told]),
        boost=np.array([use.touches.boost for use in told], np.bool_),
        place=np.array([use.use.place for use in told], np.float64),
        margin=np.array([use.use.margin for use in told], np.float64),
        lexical=np.array([use.use.lexical for use in told], np.bool_),
    )
    seconds = era.policy.reinforcement.refractory_seconds
    if told and seconds > 0:
        rows = {memory_id: row for row, memory_id in enumerate(memory_ids)}
        used_ids = [memory_ids[row] for row in uses.rows]
        ids, sessions, at = recorded_uses.list_recent(tx, tenant_id, used_ids, uses.sessions, uses.at, seconds)
        recorded = UseTimes(np.array([rows[memory_id] for memory_id in ids], np.intp), sessions, at)
        counting = effective_uses(uses, recorded, seconds)
        uses, told = uses.only(counting), [told[place] for place in counting]
    is_cross_domain = _from_other_domain(tx, tenant_id, era, memory_ids, told)
    return replace(uses, boost=uses.boost | is_cross_domain), told, is_cross_domain


def _from_other_domain(
    tx: database.Transaction, tenant_id: UUID, era: Era, memory_ids: Sequence[UUID], told: Sequence[_ReportedUse]
) -> npt.NDArray[np.bool_]:
    """Return a mask of the uses in another domain than their memory's; all False if the model ignores domains."""
    is_cross_domain = np.zeros(len(told), np.bool_)
    tagged = [place for place, use in enumerate(told) if use.touches.context_tags]
    if not tagged or not isinstance(era.dynamics, Mnemex):
        return is_cross_domain
    tags = recorded_uses.read_tags(tx, tenant_id, list({memory_ids[told[place].row] for place in tagged}))
    for place in tagged:
        use = told[place]
        memory_tags = tags.get(memory_ids[use.row], ())
        is_cross_domain[place] = is_other_domain(era.dynamics.parameters, memory_tags, use.touches.context_tags)
    return is_cross_domain


def _memories_by_envelope(
    told: Sequence[_ReportedUse], done: ReinforcementResult, memory_ids: Sequence[UUID]
) -> list[dict[UUID, float]]:
    """Return the memories that each envelope used, with the time of each memory's last use; late uses are omitted."""
    by_envelope: dict[int, dict[UUID, float]] = {}
    for use, late in zip(told, done.late, strict=True):
        if not late:
            moments = by_envelope.setdefault(use.envelope, {})
            memory_id = memory_ids[use.row]
            moments[memory_id] = max(use.at, moments.get(memory_id, use.at))
    return list(by_envelope.values())


def _record_uses(
    tx: database.Transaction, tenant_id: UUID, memory_ids: Sequence[UUID], uses: OrderedUses, done: ReinforcementResult
) -> None:
    """Add the uses to the history."""
    kinds: tuple[tuple[EventKind, npt.NDArray[np.bool_]], ...] = (("use", ~done.late), ("late_use", done.late))
    for kind, mask in kinds:
        places = np.flatnonzero(mask)
        change = EventChange(
            uses.at[places], done.before[places], done.after[places], done.after[places], uses.sessions[places]
        )
        history.add(tx, tenant_id, kind, [memory_ids[row] for row in uses.rows[places]], change)
