"""Read, list, edit and delete memories; edits and deletions are visible to the next search."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app import queues
from app.clients.redis.stream import backlog
from app.domain.ingest.bodies import decode
from app.domain.ingest.envelope import Envelope
from app.domain.ingest.ids import place_of
from app.domain.ingest.memory import KINDS, MemoryIn, MemoryPatch
from app.domain.privacy.audit import SYSTEM
from app.errors import Conflict, EbbingError, NotFound, Unavailable
from app.services.consolidation import rederiving
from app.services.enrichment import corrections, personal, texts
from app.services.erasure import erasures as erasing
from app.services.privacy.holds import check_free
from app.services.strength import policies, strengths
from app.services.tiers import moves, restores
from app.store.consolidation import supersessions
from app.store.core import database
from app.store.embedding import embeddings, spaces
from app.store.enrichment import cues, words, work
from app.store.erasure import erasures
from app.store.ingest import arrivals
from app.store.memories import memories, tenant_counts
from app.store.memories.memories import Filters, Stored
from app.store.privacy import holds
from app.store.strength import memory_strength, states
from app.store.tiers import cold, tiers


class Missing(Exception):
    """Raised within `stored_only` when the memory isn't stored."""


STATE_FIELDS = frozenset({"salience", "multiplier"})
SCORED_FIELDS = frozenset({"salience", "kind", "categories"})
PROTECTING_FIELDS = frozenset({"kind", "tags", "categories"})
"""Fields given by the caller that a decision about the memory's tier depends on."""


DERIVED_FIELDS = frozenset({"text", "speaker", "role", "subject", "categories", "occurred_at"})
"""Fields of a source that its summary depends on."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A memory that was accepted but isn't stored yet."""

    memory_id: UUID
    given: MemoryIn
    accepted_ms: int


def get(tenant_id: UUID, memory_id: UUID) -> Stored | Pending:
    """Return a memory by its id or an alias, including one that is still in the ingest queue.

    Raises:
        NotFound: This tenant has no such memory.
    """
    stored = _stored(tenant_id, memory_id)
    if stored is not None:
        return stored
    pending = _pending(tenant_id, memory_id)
    # It may have been stored between the two queries.
    found = pending or _stored(tenant_id, memory_id)
    if found is None:
        raise NotFound("this tenant has no such memory")
    return found


def page(tenant_id: UUID, wanted: Filters, older_than: UUID | None, limit: int) -> list[Stored]:
    """List stored memories, newest first, starting after `older_than`; filters by strength use the current strength."""
    with database.tenant(tenant_id) as tx:
        if not wanted.by_strength:
            return memories.page(tx, tenant_id, wanted, older_than, limit)
        state = memory_strength.relation(strengths.timeline(tx, tenant_id), database.now(tx).timestamp())
        return memories.page(tx, tenant_id, wanted, older_than, limit, state)


def edit(tenant_id: UUID, memory_id: UUID, given: MemoryPatch) -> Stored:
    """Edit a memory; an archived memory becomes active again. Its words and its neighbours' are reindexed on return.

    If the edited memory now matches an open erasure it is hidden, but still returned to this caller. Vectors that
    contain the old text, its own and those of later turns in the thread, are deleted at once; until they are
    recomputed, these memories are found by their words only.

    Raises:
        NotFound: This tenant has no such memory.
        Unavailable: It is still in the ingest queue.
        Conflict: It is under a legal hold, and a field outside `STATE_FIELDS` is to change; or it is in cold storage,
            so its row is incomplete.
    """
    changes = {name: value for name, value in given.items() if name not in STATE_FIELDS}
    policy = policies.current(tenant_id)
    with stored_only(tenant_id, memory_id), database.tenant(tenant_id) as tx:
        stored_id = _lock_free(tx, tenant_id, memory_id) if changes else lock(tx, tenant_id, memory_id)
        _check_whole(tx, tenant_id, stored_id)
        again = memories.ENRICHED_FIELDS & changes.keys()
        restored = _restored(tx, tenant_id, stored_id, anew=bool(again))
        former = words.neighbours(tx, tenant_id, [stored_id]) if again else []
        later = embeddings.remove(tx, tenant_id, [stored_id]) if again else set()
        before = tenant_counts.measure(tx, tenant_id, [stored_id]) if "text" in changes else None
        with strengths.changing(tx, tenant_id, [stored_id]):
            if changes:
                memories.edit(tx, tenant_id, stored_id, changes)
            if state := _state(given):
                memories.edit_state(tx, tenant_id, stored_id, state)
            if PROTECTING_FIELDS & changes.keys():
                tiers.look_again(tx, tenant_id, [stored_id])
        if again:
            personal.note(tx, tenant_id, texts.read(tx, tenant_id, [stored_id]), policy)
            cues.delete_outdated(tx, tenant_id, [stored_id])
            words.index(tx, tenant_id, [stored_id, *former], policy.language, policy.time_zone)
            if "thread" in changes:
                later |= embeddings.remove(tx, tenant_id, [stored_id])
            work.add(tx, [work.EMBED], tenant_id, [stored_id, *later])
        corrections.renew(tx, tenant_id, [stored_id] if again or "subject" in changes else [], policy)
        supersessions.reject_cross_subject(tx, tenant_id, [stored_id] if "subject" in changes else [])
        if again or SCORED_FIELDS & given.keys():
            work.add(tx, [work.SCORE], tenant_id, [stored_id])
        rederiving.source_changed(tx, tenant_id, [stored_id] if DERIVED_FIELDS & changes.keys() else [])
        if before is not None:
            tenant_counts.add(tx, tenant_id, tenant_counts.measure(tx, tenant_id, [stored_id]).less(before))
        moves.note_restored(tx, tenant_id, restored, "archived", rule="edit")
        edited = memories.get(tx, tenant_id, stored_id)
        erasing.hide_met(tx, tenant_id, [stored_id] if changes else [])
    if again or restored:
        queues.nudge(queues.EMBED_MEMORIES)
    if edited is None:
        raise NotFound("this tenant has no such memory")
    return edited


def _restored(tx: database.Transaction, tenant_id: UUID, stored_id: UUID, *, anew: bool) -> list[UUID]:
    """Restore a memory if it is archived; with `anew`, its text has changed and is about to be embedded again."""
    if anew:  # a restore only shares the spaces' lock, and two transactions that share it can't both upgrade
        states.lock(tx, tenant_id, [stored_id])
        spaces.lock(tx, tenant_id)
    return restores.restore(tx, tenant_id, [stored_id])


def _check_whole(tx: database.Transaction, tenant_id: UUID, stored_id: UUID) -> None:
    """Check that a memory's row is complete.

    Raises:
        Conflict: The memory is in cold storage.
    """
    if cold.places(tx, tenant_id, [stored_id]):
        raise Conflict("this memory is in cold storage: restore it first, by POST /v1/memories/{id}/restore")


def delete(tenant_id: UUID, memory_id: UUID, actor: str = SYSTEM) -> None:
    """Hide a memory, remove it from its neighbours' context, and have it erased when its grace period is over.

    Raises:
        NotFound: This tenant has no such memory.
        Unavailable: It is still in the ingest queue.
        Conflict: It is under a legal hold.
    """
    with stored_only(tenant_id, memory_id), database.tenant(tenant_id) as tx:
        stored_id = _lock_free(tx, tenant_id, memory_id)
        erasing.delete(tx, tenant_id, stored_id, actor)
    queues.nudge(queues.EMBED_MEMORIES)


@contextmanager
def stored_only(tenant_id: UUID, memory_id: UUID) -> Iterator[None]:
    """Convert `Missing` into the error for the caller: still in the ingest queue, or unknown.

    Raises:
        NotFound: `Missing` was raised inside, and this tenant has no such memory.
        Unavailable: `Missing` was raised inside, and the memory is still in the ingest queue.
    """
    try:
        yield
    except Missing:
        # The transaction has ended: the queue must not be queried within one.
        if backlog().find(tenant_id, memory_id) is not None:
            raise Unavailable("this memory is still in the queue", retry_after_seconds=1) from None
        raise NotFound("this tenant has no such memory") from None


def are_searchable(tenant_id: UUID, base: bytes, memory_ids: list[UUID]) -> bool:
    """Return whether a request's memories are stored and have passed every enrichment stage that search needs."""
    with database.tenant(tenant_id) as tx:
        return arrivals.is_stored(tx, tenant_id, base) and not work.any_waiting(tx, tenant_id, memory_ids)


def _stored(tenant_id: UUID, memory_id: UUID) -> Stored | None:
    with database.tenant(tenant_id) as tx:
        return memories.get(tx, tenant_id, memories.resolve(tx, tenant_id, memory_id))


def _pending(tenant_id: UUID, memory_id: UUID) -> Pending | None:
    envelope = backlog().find(tenant_id, memory_id)
    if envelope is None or place_of(memory_id) >= envelope.memories:
        return None
    given = _given(envelope)
    if not given:
        return None
    with database.tenant(tenant_id) as tx:
        coming = erasures.coming(tx, tenant_id)
    found = given[place_of(memory_id)]
    return None if coming.concerns([found], envelope.accepted_ms) else Pending(memory_id, found, envelope.accepted_ms)


def _given(envelope: Envelope) -> list[MemoryIn]:
    try:
        return [] if envelope.form == "touches" else decode(envelope.body, envelope.form, dimensions=None)
    except EbbingError:
        return []  # the drain will write a dead letter


def lock(tx: database.Transaction, tenant_id: UUID, memory_id: UUID) -> UUID:
    """Lock a memory's row and return its stored id; for use within `stored_only`.

    Raises:
        Missing: The memory isn't stored.
    """
    stored_id = memories.resolve(tx, tenant_id, memory_id)
    if not memories.lock(tx, tenant_id, stored_id):
        raise Missing
    return stored_id


def _lock_free(tx: database.Transaction, tenant_id: UUID, memory_id: UUID) -> UUID:
    """Lock a memory's row and return its stored id, after checking that no legal hold covers it."""
    holds.lock_shared(tx, tenant_id)
    erasures.lock_shared(tx, tenant_id)
    stored_id = lock(tx, tenant_id, memory_id)
    check_free(tx, tenant_id, [stored_id])
    return stored_id


def _state(given: dict[str, Any]) -> dict[str, Any]:
    state = {name: value for name, value in given.items() if name in STATE_FIELDS}
    if "salience" in state:
        state["salience_source"] = None if state["salience"] is None else "caller"
    if "kind" in given:
        state["kind"] = KINDS.index(given["kind"] or "episodic")  # scoring infers the kind again if it is cleared
    return state
