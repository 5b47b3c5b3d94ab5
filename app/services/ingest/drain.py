"""Drain the tenants' streams into the database, storing each entry exactly once even if workers die.

An entry is deleted from the stream after the transaction that stored it; the ingest ledger prevents storing it twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from uuid import UUID

import structlog

from app import failpoints, metrics, queues, tracing
from app.clients.redis.stream import StreamEntry, TenantBatch, stream_reader
from app.domain.ingest import uses
from app.domain.ingest.bodies import decode
from app.domain.ingest.envelope import MalformedEnvelope, decode_envelope, first_position, strip_caller_ids
from app.domain.ingest.memory import with_expiry
from app.domain.turns import TurnSize
from app.errors import Invalid, Unreadable, stored_name
from app.services.enrichment import stage_runner
from app.services.ingest import upsert_by_external_id
from app.services.transient_errors import is_transient
from app.services.uses import reinforcement
from app.services.uses.reinforcement import EnvelopeTouches
from app.settings import settings
from app.store.core import database
from app.store.core.binary_copy import Arrival
from app.store.erasure import requests
from app.store.ingest import dead_letters, envelopes
from app.store.ingest.dead_letters import UnstoredEntry

STAGE = "drain"
KILLED = "its worker died each time"
NUDGE_EVERY_SECONDS = 0.25
"""Interval at which a running drain task wakes the enrichment workers, so that stored memories needn't wait until the
task ends."""
INDEX_WAITS_SECONDS = 1.0
"""Time for which a nudge for the index stage, which shares the lane, may wait for a process before a drain task ends.
The index stage also lets the drain go first (`SHARED_LANE_SECONDS` of `stage_runner`)."""

FEW_MEMORIES = 20
"""Maximum number of memories that a drain task indexes itself: a message to another task takes longer than they do."""

# Size of a turn while several tenants have pending entries, computed from the speed of this process's turns.
_turn_size = TurnSize(least=500, first=1000)

log = structlog.get_logger(__name__)


def drain_and_index() -> None:
    """Do as `drain_streams`, then index the memories if they are few, so that a lone memory is soon searchable."""
    if 0 < drain_streams() <= FEW_MEMORIES:
        stage_runner.index_stored()


def drain_streams() -> int:
    """Store the waiting entries of one tenant after another until none are left or the slice ends.

    The slice also ends if the index stage waits for the lane, so that neither starves on an overloaded machine.
    More than `FEW_MEMORIES` cause a nudge for the index stage; `drain_and_index` indexes fewer.

    Returns:
        The number of memories stored.

    Raises:
        sqlalchemy.exc.OperationalError: PostgreSQL failed; no data is lost, since the entries are delivered again.
        redis.RedisError: Redis failed; no data is lost, since the entries are delivered again.
    """
    began = time.monotonic()
    nudged: float | None = None
    index_waits_since: float | None = None
    stored = 0
    turn = stream_reader().claim(first=True, shared_memories=_turn_size.memories)
    while turn is not None:
        turn_began = time.monotonic()
        if stored and (nudged is None or turn_began - nudged >= NUDGE_EVERY_SECONDS):
            # Enrichment starts before the end of a long slice.
            index_waits_since = (index_waits_since or turn_began) if _nudge_enrichment() else None
            nudged = turn_began
        with tracing.trace_work("store", _trace_contexts(turn), {"requests": len(turn.suspects) + len(turn.fresh)}):
            stored_now = _store_entries(turn)
        now = time.monotonic()
        _turn_size.record(stored_now, now - turn_began)
        stored += stored_now
        does_index_wait = index_waits_since is not None and now - index_waits_since >= INDEX_WAITS_SECONDS
        if does_index_wait or now - began >= settings().slice_seconds:
            queues.nudge(queues.DRAIN)
            break
        turn = stream_reader().claim(first=False, shared_memories=_turn_size.memories)
    if stored:
        metrics.count("stored_memories", stored)
    if stored > FEW_MEMORIES:
        _nudge_enrichment()
    elif stored:
        queues.nudge(queues.EMBED_MEMORIES)
    return stored


def _trace_contexts(turn: TenantBatch) -> Iterator[str]:
    """Yield the trace contexts of a turn's requests, skipping malformed entries."""
    for entry in (*turn.suspects, *turn.fresh):
        with suppress(MalformedEnvelope):
            yield decode_envelope(*entry).trace


def _nudge_enrichment() -> bool:
    """Nudge the stages that search needs. Return true if an earlier nudge of the index stage still waits."""
    is_pending = queues.nudge(queues.INDEX)
    queues.nudge(queues.EMBED_MEMORIES)
    return is_pending


def _store_entries(turn: TenantBatch) -> int:
    """Store the entries of a tenant's turn, then end the turn.

    Fresh entries are stored together, and one by one if that fails. Suspects, whose worker died, are stored one by one.
    """
    tenant_id = turn.tenant_id
    try:
        stored = _store_each(tenant_id, turn.suspects)
        if turn.fresh:
            try:
                return stored + _store_together(tenant_id, turn.fresh)
            except Exception as error:
                if is_transient(error):
                    raise
                metrics.count("deliveries", len(turn.fresh), lane=queues.INGEST, outcome="failed")
                _log("turn_failed", tenant_id, error, entries=len(turn.fresh))
            stored += _store_each(tenant_id, turn.fresh)
    except Exception:
        # The entries didn't cause the failure, so they may be retried at once.
        metrics.count("deliveries", len(turn.fresh) + len(turn.suspects), lane=queues.INGEST, outcome="put_off")
        stream_reader().acknowledge(tenant_id, free=True)
        raise
    stream_reader().acknowledge(tenant_id, free=True)
    return stored


def _store_each(tenant_id: UUID, entries: Sequence[StreamEntry]) -> int:
    """Store entries one by one; an entry becomes a dead letter after `deliveries_max` failed deliveries."""
    tries = settings().deliveries_max - 1  # the first delivery was in a batch with other entries
    return sum(_store_alone(tenant_id, entry, tries) for entry in entries)


def _store_alone(tenant_id: UUID, entry: StreamEntry, tries: int) -> int:
    reason = KILLED
    while (attempt := stream_reader().count_attempt(tenant_id, entry)) <= tries:
        try:
            return _store_together(tenant_id, [entry], free=False)
        except Exception as error:
            if is_transient(error):
                stream_reader().uncount_attempt(tenant_id, entry)
                raise
            reason = stored_name(error)
            metrics.count("deliveries", lane=queues.INGEST, outcome="failed")
            _log("entry_failed", tenant_id, error, entry=entry.entry_id, attempt=attempt)
    _set_aside(tenant_id, entry, reason, attempt)
    stream_reader().acknowledge(tenant_id, [entry], free=False)
    return 0


def _log(event: str, tenant_id: UUID, error: Exception, **details: object) -> None:
    log.warning(event, tenant=str(tenant_id), exc_info=error, **details)


def _store_together(tenant_id: UUID, entries: Sequence[StreamEntry], *, free: bool = True) -> int:
    """Store entries, then delete them from the stream; return the number of memories stored.

    New memories, upserts and uses are committed one after another; the ledger makes a retry after a partial failure
    safe.

    Args:
        free: Whether to end the tenant's turn afterwards.
    """
    to_copy: list[Arrival] = []
    to_upsert: list[Arrival] = []
    touched: list[EnvelopeTouches] = []
    unreadable: list[tuple[StreamEntry, str]] = []
    for entry in entries:
        try:
            decoded = _read(entry)
        except (MalformedEnvelope, Unreadable, Invalid) as error:
            unreadable.append((entry, str(error) if isinstance(error, MalformedEnvelope) else stored_name(error)))
            continue
        if isinstance(decoded, EnvelopeTouches):
            touched.append(decoded)
        else:
            (to_upsert if upsert_by_external_id.needs_upsert(decoded) else to_copy).append(decoded)
    stored = 0
    failpoints.trigger("drain.before_store")
    if to_copy:
        with database.drain() as tx:
            requests.lock_shared(tx, tenant_id)
            open_erasures = requests.coming(tx, tenant_id)
            unaffected: list[Arrival] = []
            # `upsert_by_external_id` stores arrivals that may match an erasure, and hides or drops the matches.
            for arrival in to_copy:
                is_matched = open_erasures.may_match(arrival.memories, arrival.accepted_ms, arrival.writer)
                (to_upsert if is_matched else unaffected).append(arrival)
            if unaffected:
                stored += envelopes.copy_fresh(tx, tenant_id, unaffected)
            failpoints.trigger("drain.before_commit")
    if to_upsert:
        stored += upsert_by_external_id.upsert_memories(tenant_id, to_upsert)
    if touched:  # after the memories, since the uses may refer to memories of the same turn
        reinforcement.reinforce_used(tenant_id, touched)
    # Unreadable entries are set aside last, after all steps that may be retried, so that each is set aside only once.
    # A retry by this worker can't help: another program or a newer API wrote them, or Redis lost part of them.
    for entry, reason in unreadable:
        _set_aside(tenant_id, entry, reason, 1)
    failpoints.trigger("drain.before_settle")
    stream_reader().acknowledge(tenant_id, entries, free=free)
    set_aside_ids = {entry.entry_id for entry, _ in unreadable}
    _count([entry for entry in entries if entry.entry_id not in set_aside_ids])
    return stored


def _count(done: Sequence[StreamEntry]) -> None:
    """Count entries and observe the latency from acceptance to storage."""
    with metrics.buffer_counts():
        metrics.count("deliveries", len(done), lane=queues.INGEST, outcome="done")
        for entry in done:
            metrics.observe_duration("event_store_seconds", stream_reader().waited_seconds(entry), entry.memories)


def _read(entry: StreamEntry) -> Arrival | EnvelopeTouches:
    failpoints.trigger("drain.read", entry.entry_id)
    envelope = decode_envelope(*entry)
    memories = decode(envelope.body, envelope.form, dimensions=None) if envelope.form != "touches" else []
    if len(memories) != envelope.memories:
        reason = "envelope body and memory count differ"
        raise MalformedEnvelope(reason)
    if envelope.form == "touches":
        return EnvelopeTouches(envelope.base, envelope.accepted_ms / 1000, uses.decode(envelope.body))
    accepted_ms = envelope.accepted_ms
    memories = [with_expiry(memory, accepted_ms / 1000) for memory in memories]
    return Arrival(envelope.position, envelope.base, accepted_ms, memories, envelope.sent_ms, envelope.writer)


def _set_aside(tenant_id: UUID, entry: StreamEntry, reason: str, attempts: int) -> None:
    replays = stream_reader().count_replays(tenant_id, entry.entry_id)
    with database.drain() as tx:
        dead_letters.add(
            tx,
            tenant_id,
            stage=STAGE,
            reason=reason,
            attempts=attempts,
            unstored=UnstoredEntry(
                entry.entry_id,
                first_position(entry.entry_id, entry.header),
                strip_caller_ids(entry.header, keep_trace=True),
                entry.body,
                entry.memories,
                replays,
            ),
        )
    metrics.count("dead_letters")
    metrics.count("deliveries", lane=queues.INGEST, outcome="dead")
    log.error("dead_letter", tenant=str(tenant_id), entry=entry.entry_id, reason=reason, attempts=attempts)
