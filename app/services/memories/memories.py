"""List, edit and delete memories; the next search after an edit or deletion takes it into account."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any
from uuid import UUID

from msgspec import UNSET

from app import queues
from app.domain.changes.types import UPDATED
from app.domain.ingest import ids
from app.domain.ingest.memory import KINDS, MemoryPatch, refuse_past
from app.domain.ingest.sources import Writer, check_sources, lowest
from app.domain.privacy.audit_chain import SYSTEM
from app.errors import Conflict, NotFound, require_found
from app.services.consolidation import supersession
from app.services.enrichment import corrections, pii_scan, texts
from app.services.erasure import requests
from app.services.storage.lookup import find_deletion, lock, stored_only
from app.services.storage.memory_write import MemoryWrite, memory_write
from app.services.strength import current_policy, memory_strength
from app.services.tiers import reactivation
from app.store.consolidation import edited_supersessions
from app.store.core import database
from app.store.core.paging import Page
from app.store.embedding import embedding_spaces, embeddings
from app.store.enrichment import cues, word_index, work_queue
from app.store.erasure.requests import Erasure
from app.store.ingest import envelopes
from app.store.memories import memories, provenance
from app.store.memories.memories import Filters, ListOrder, StoredMemory
from app.store.memories.provenance import WriteTime
from app.store.strength import live_strength_sql, states
from app.store.tiers import cold_segments, tiers

STATE_FIELDS = frozenset({"salience", "multiplier"})
SCORED_FIELDS = frozenset({"salience", "kind", "categories"})
RETENTION_FIELDS = frozenset({"expires_at", "keep_days"})
PROTECTING_FIELDS = frozenset({"kind", "tags", "categories", "subject", "expires_at"})
"""Fields set by the caller on which the decision about the memory's tier depends."""


DERIVED_FIELDS = frozenset({"source", "text", "speaker", "role", "subject", "categories", "occurred_at"})
"""Fields of a source from which its summary is derived."""


def list_memories(
    tenant_id: UUID, wanted: Filters, after: UUID | int | None, limit: int, order: ListOrder = "newest"
) -> Page[StoredMemory]:
    """Return a page of stored memories.

    Filters by strength use the current strength.

    Args:
        after: The previous page's last id or, in the order of the thread, its sequence number.
    """
    with database.tenant(tenant_id) as tx:
        if not wanted.by_strength:
            return memories.list_memories(tx, tenant_id, wanted, after, limit, order=order)
        state = live_strength_sql.strength_relation(
            memory_strength.load_timeline(tx, tenant_id), database.now(tx).timestamp()
        )
        return memories.list_memories(tx, tenant_id, wanted, after, limit, state=state, order=order)


class TextChanged(Exception):
    """The memory's text isn't the one on which an edit is based."""


def edit_memory(
    tenant_id: UUID,
    memory_id: UUID,
    given: MemoryPatch,
    writer: Writer | None = None,
    *,
    if_text: str | None = None,
    keeps_version: bool = False,
) -> StoredMemory:
    """Edit a memory; an archived memory becomes active again, unless only its time of expiry changes.

    If the edited memory now matches an open erasure, it is hidden, but still returned to this caller. If its words
    change, the memory and its neighbours are reindexed before this returns. Vectors computed from the old text (of the
    memory and its neighbours in the thread) are deleted at once; until the vectors are recomputed, searches find these
    memories only by their words.

    The memory's source becomes the lower one of its own and the writer's.

    Args:
        writer: The caller's API key and its source; None if the service itself edits, which doesn't change the source.
        if_text: Edit the memory only if this is its text; None edits it in any case.
        keeps_version: Keep the former text of a file as a memory that the file supersedes; the audit log names the
            writer's key.

    Raises:
        TextChanged: The memory has another text than `if_text`.
        NotFound: This tenant has no such memory.
        Unavailable: The memory is still in the ingest queue.
        Invalid: The time of expiry has passed, or the source is higher than the writer's.
        Conflict: The memory is under a legal hold and the edit includes fields outside `STATE_FIELDS`; or the memory is
            in cold storage, so its row is incomplete, and more than its time of expiry changes.
    """
    changes = {name: value for name, value in given.items() if name not in STATE_FIELDS}
    policy = current_policy.read(tenant_id)
    with stored_only(tenant_id, memory_id), memory_write(tenant_id, "content" if changes else "state") as write:
        tx = write.tx
        stored_id = lock(tx, tenant_id, memory_id)
        if changes:
            write.check_free([stored_id])
        _check_text(tx, tenant_id, stored_id, if_text)
        reworded = memories.ENRICHED_FIELDS & changes.keys()
        restored = []
        if given.keys() - RETENTION_FIELDS:
            restored = _restore_archived(write, stored_id, is_reworded=bool(reworded))
        changes = _with_expiry(tx, changes)
        changes = _with_source(tx, tenant_id, stored_id, changes, writer)
        former_neighbours = word_index.list_neighbours(tx, tenant_id, [stored_id]) if reworded else []
        to_embed = embeddings.remove(tx, tenant_id, [stored_id]) if reworded else set()
        write.measure([stored_id] if "text" in changes else [])
        versions = [_keep_version(write, stored_id)] if keeps_version else []
        with write.update([stored_id]):
            if changes:
                memories.update_memory(tx, tenant_id, stored_id, changes)
            if state := _state(given):
                memories.update_state(tx, tenant_id, stored_id, state)
            if PROTECTING_FIELDS & changes.keys():
                tiers.mark_due(tx, tenant_id, [stored_id])
        if reworded:
            pii_scan.store(tx, tenant_id, pii_scan.scan(texts.read(tx, tenant_id, [stored_id, *versions]), policy))
            cues.delete_outdated(tx, tenant_id, [stored_id])
            word_index.index_words(
                tx, tenant_id, [stored_id, *versions, *former_neighbours], policy.language, policy.time_zone
            )
            if "thread" in changes:
                to_embed |= embeddings.remove(tx, tenant_id, [stored_id])
            write.queue([work_queue.EMBED], [stored_id, *to_embed])
        is_moved = reworded or {"subject", "source"} & changes.keys()
        corrections.refresh_corrections(tx, tenant_id, [stored_id] if is_moved else [], policy)
        _supersede(write, stored_id, versions, writer)
        edited_supersessions.reject_cross_subject(tx, tenant_id, [stored_id] if "subject" in changes else [])
        if reworded or SCORED_FIELDS & given.keys():
            write.queue([work_queue.SCORE], [stored_id])
        edited_supersessions.propose_lower(tx, tenant_id, [stored_id] if "source" in changes else [])
        write.sources_changed([stored_id] if DERIVED_FIELDS & changes.keys() else [])
        write.changed([stored_id, *versions] if changes else [])
        write.report(UPDATED, [] if changes else [stored_id])
        edited = memories.get(tx, tenant_id, stored_id)
    if reworded or restored:
        queues.nudge(queues.EMBED_MEMORIES)
    return require_found(edited, "memory")


def _keep_version(write: MemoryWrite, stored_id: UUID) -> UUID:
    """Keep the present text of a file as a memory and return its id."""
    base = ids.generate_base(int(database.now(write.tx).timestamp() * 1000), os.urandom(ids.RANDOM_BYTES))
    write.keep_version(stored_id, UUID(bytes=base))
    return UUID(bytes=base)


def _supersede(write: MemoryWrite, stored_id: UUID, versions: list[UUID], writer: Writer | None) -> None:
    """Let a file supersede its former text, with an audit entry of the key that edits the file."""
    stated = {stored_id: list(map(str, versions))}
    superseded = supersession.record_statements(write.tx, write.tenant_id, stated)
    if superseded and writer is not None and writer.key_id is not None:
        write.audit("memories_superseded", writer.key_id, ids=superseded, details={"source": "caller"})


def _check_text(tx: database.Transaction, tenant_id: UUID, stored_id: UUID, expected: str | None) -> None:
    if expected is not None and require_found(memories.get(tx, tenant_id, stored_id), "memory").text != expected:
        raise TextChanged


def _with_source(
    tx: database.Transaction, tenant_id: UUID, stored_id: UUID, changes: dict[str, Any], writer: Writer | None
) -> dict[str, Any]:
    """Record the write, and return the changes, with a source only if the memory's source is lowered.

    Raises:
        Invalid: The source is higher than the writer's.
    """
    if writer is None or not changes:
        return changes
    check_sources([("source", changes.get("source"))], writer)
    provenance.record_writes(tx, tenant_id, [WriteTime(stored_id, writer.key_id, database.now(tx))])
    others = {name: value for name, value in changes.items() if name != "source"}
    source = lowest((changes.get("source", writer.source), writer.source))
    return others | provenance.lower_source(tx, tenant_id, stored_id, source)


def _with_expiry(tx: database.Transaction, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the changes with `keep_days` replaced by the time of expiry, counted from now.

    Raises:
        Invalid: The time of expiry has passed.
    """
    changes = dict(changes)
    keep_days = changes.pop("keep_days", UNSET)
    if keep_days is not UNSET and "expires_at" not in changes:
        changes["expires_at"] = None if keep_days is None else database.now(tx) + timedelta(days=keep_days)
    elif changes.get("expires_at") is not None:
        refuse_past(changes["expires_at"], database.now(tx), "expires_at")
    return changes


def _restore_archived(write: MemoryWrite, stored_id: UUID, *, is_reworded: bool) -> list[UUID]:
    """Restore a memory if it is archived; return its id in a list, which is otherwise empty.

    Args:
        is_reworded: Whether the edit deletes the memory's vector, which requires the exclusive lock of the spaces.

    Raises:
        Conflict: The memory is in cold storage, so its row is incomplete.
    """
    if cold_segments.list_locations(write.tx, write.tenant_id, [stored_id]):
        raise Conflict("this memory is in cold storage: restore it first, by POST /v1/memories/{id}/restore")
    # Restores take the spaces' lock in share mode; two transactions that share it would deadlock if both upgraded.
    if is_reworded:
        states.lock(write.tx, write.tenant_id, [stored_id])
        embedding_spaces.lock(write.tx, write.tenant_id)
    return reactivation.restore(write, [stored_id], "edit")


def delete(tenant_id: UUID, memory_id: UUID, actor: str = SYSTEM) -> Erasure:
    """Hide a memory, remove it from its neighbours' context, and return its erasure, due after the grace period.

    A memory that was deleted already stays as it is: its erasure is returned while it is open.

    Raises:
        NotFound: This tenant has no such memory.
        Unavailable: The memory is still in the ingest queue.
        Conflict: The memory is under a legal hold.
    """
    try:
        with stored_only(tenant_id, memory_id), memory_write(tenant_id, "content") as write:
            stored_id = lock(write.tx, tenant_id, memory_id)
            write.check_free([stored_id])
            deletion = requests.delete(write.tx, tenant_id, stored_id, actor)
    except NotFound:
        earlier = find_deletion(tenant_id, memory_id)
        if earlier is None:
            raise
        return earlier
    queues.nudge(queues.EMBED_MEMORIES)
    return deletion


def are_searchable(tenant_id: UUID, base: bytes, memory_ids: list[UUID]) -> bool:
    """Return whether a request's memories are stored and have passed every enrichment stage that search needs."""
    with database.tenant(tenant_id) as tx:
        return envelopes.is_stored(tx, tenant_id, base) and not work_queue.any_waiting(tx, tenant_id, memory_ids)


def _state(given: dict[str, Any]) -> dict[str, Any]:
    state = {name: value for name, value in given.items() if name in STATE_FIELDS}
    if "salience" in state:
        state["salience_source"] = None if state["salience"] is None else "caller"
    if "kind" in given:
        # If the caller clears the kind, scoring infers it again.
        state["kind"] = KINDS.index(given["kind"] or "episodic")
    return state
