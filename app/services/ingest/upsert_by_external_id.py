"""Store memories that bulk COPY can't: those with an external id, vector, supersession or links, and delayed writes.

A repeated external id updates the existing memory; the id returned for the repeat becomes an alias. An envelope
containing any such memory is stored as a whole, with its ledger row, in a transaction of the tenant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import numpy as np
import structlog
from msgspec.structs import replace

from app import metrics
from app.clients.llm.resilience import ProviderFailed
from app.domain.changes.types import SUPERSEDED
from app.domain.ingest.memory import CONTENT, Kind
from app.domain.ingest.sources import as_stored, lowest
from app.errors import Misconfigured
from app.services.consolidation import supersession
from app.services.embedding import spaces
from app.services.enrichment import corrections, pii_scan, texts
from app.services.ingest import late_writes, links_at_ingest
from app.services.storage.memory_write import MemoryWrite, memory_write
from app.services.tiers import cold_restore, reactivation
from app.store.consolidation import edited_supersessions
from app.store.core import database
from app.store.core.binary_copy import Arrival
from app.store.embedding import embedding_spaces, embeddings
from app.store.embedding.embeddings import EmbeddingTexts
from app.store.enrichment import cues, word_index, work_queue
from app.store.ingest import envelopes
from app.store.memories import memories, provenance
from app.store.memories.aliases import add_aliases
from app.store.memories.memories import ENRICHED_FIELDS, NewMemory
from app.store.memories.provenance import WriteTime
from app.store.privacy import holds
from app.store.strength import kinds, states
from app.store.tenants import policies
from app.store.tiers import cold_segments, tiers

_KEPT: Final = ("salience", "multiplier", *(field.name for field in CONTENT if field.column.is_kept))
"""Fields preserved when an update omits them."""

log = structlog.get_logger(__name__)


def needs_upsert(arrival: Arrival) -> bool:
    """Return True if COPY can't store the memories of an arrival.

    That is so if any has an external id or an embedding, supersedes another memory, has links, or waited at its sender.
    """
    return any(
        memory.external_id is not None
        or memory.embedding is not None
        or memory.supersedes
        or memory.links
        or memory.written is not None
        for memory in arrival.memories
    )


def upsert_memories(tenant_id: UUID, careful: Sequence[Arrival]) -> int:
    """Insert the envelopes' memories, or update existing memories with the same external ids.

    Returns:
        The number of memories inserted or changed; repeating the same content changes nothing.
    """
    by_base = {arrival.base: arrival for arrival in careful}
    if any(memory.embedding is not None for arrival in careful for memory in arrival.memories):
        ensure_space(tenant_id)
    with memory_write(tenant_id, "content") as write:
        tx = write.tx
        new_bases = envelopes.insert_fresh(
            tx, tenant_id, {base: len(arrival.memories) for base, arrival in by_base.items()}
        )
        rows = _drop_erased(tx, tenant_id, [arrival for base, arrival in by_base.items() if base in new_bases])
        if not rows:
            return 0
        latest, earlier_versions = _latest_versions(rows)
        keys = [key for key in latest if isinstance(key, str)]
        lockable = links_at_ingest.lock_targets(tx, tenant_id, rows, keys)
        existing = memories.lock_external(tx, tenant_id, keys)
        # A memory under legal hold stays unchanged: the update becomes a new memory that takes over the external id.
        if holds_by_memory := holds.list_by_memory(tx, tenant_id, list(existing)):
            for memory_id in holds.remove_external_ids(tx, tenant_id, list(holds_by_memory), list(latest.values())):
                del existing[memory_id]
        states.lock(tx, tenant_id, list(existing))  # lock order: states before vectors and words
        reworded = _reworded(existing, latest)
        # If the update changes the memory's thread, its former neighbours are reindexed too.
        former_neighbours = word_index.list_neighbours(tx, tenant_id, reworded)
        to_embed = embeddings.remove(tx, tenant_id, reworded)
        write.measure(list(existing))
        with write.update(list(existing)):
            written = memories.upsert(tx, tenant_id, list(latest.values()))
            kinds.set_kinds(tx, tenant_id, _given_kinds(latest, written.aliases))
            updated = list(written.changed & existing.keys())
            tiers.mark_due(tx, tenant_id, updated)
        cold_ids = list(cold_segments.list_locations(tx, tenant_id, updated))
        cold_restore.reactivate_cold(write, cold_ids, "edit", actor=None)
        to_embed |= embeddings.remove(tx, tenant_id, reworded)
        reactivated = reactivation.restore(write, updated, "edit", actor=None)
        _reindex(tx, tenant_id, reworded, former_neighbours)
        cold_restore.discard_records(tx, tenant_id, cold_ids)
        _alias(tx, tenant_id, latest, earlier_versions, written.aliases)
        vectors = {
            written.aliases.get(row.memory_id, row.memory_id): row.given.embedding
            for row in latest.values()
            if row.given.embedding is not None
        }
        embedded = write_vectors(tx, tenant_id, written.versions, vectors)
        stored_ids = _stored_ids(rows, latest, written.aliases)
        _settle_updates(tx, tenant_id, updated, _list_writes(rows, stored_ids, written.changed))
        corrections.refresh_corrections(tx, tenant_id, updated)
        superseded = supersession.record_statements(tx, tenant_id, _superseded_names(rows, stored_ids))
        links_at_ingest.add_links(tx, tenant_id, rows, stored_ids, lockable | written.versions.keys())
        inserted = written.changed - existing.keys()
        write.measure_inserted(inserted)
        write.queue([work_queue.INDEX], inserted)
        write.queue([work_queue.SCORE], written.changed)
        write.queue([work_queue.EMBED], {*inserted, *reworded, *to_embed} - embedded)
        write.sources_changed(updated)
        write.changed(list(written.changed))
        _report_superseded(write, superseded)
        if cold_ids or reactivated:
            write.audit("memories_restored", ids=[*cold_ids, *reactivated])
    return len(written.changed)


def _given_kinds(latest: Mapping[str | UUID, NewMemory], aliases: Mapping[UUID, UUID]) -> dict[UUID, Kind]:
    """Return the kinds that callers specified, by stored memory id."""
    return {
        aliases.get(row.memory_id, row.memory_id): row.given.kind
        for row in latest.values()
        if row.given.kind is not None
    }


def _report_superseded(write: MemoryWrite, superseded: Sequence[UUID]) -> None:
    if superseded:
        write.report(SUPERSEDED, superseded)
        write.audit("memories_superseded", ids=superseded, details={"source": "caller"})


def _alias(
    tx: database.Transaction,
    tenant_id: UUID,
    latest: Mapping[str | UUID, NewMemory],
    overtaken: Sequence[tuple[str | UUID, NewMemory]],
    aliases: Mapping[UUID, UUID],
) -> None:
    """Store the ids returned for repeated external ids as aliases of the updated memories."""
    latest_ids = {row.memory_id: latest[key].memory_id for key, row in overtaken}
    final = {row: aliases.get(stored, stored) for row, stored in latest_ids.items()}
    add_aliases(tx, tenant_id, {**aliases, **final})


def _drop_erased(tx: database.Transaction, tenant_id: UUID, arrivals: Sequence[Arrival]) -> list[NewMemory]:
    """Return the memories as rows, without those written before an erasure of their subject or thread."""
    rows = [row for arrival in arrivals for row in late_writes.list_rows(arrival)]
    if not rows:
        return []
    erased = late_writes.find_erased(tx, tenant_id, [(row.given, since) for row, since in rows])
    dropped = [row for (row, _), what in zip(rows, erased, strict=True) if what is not None]
    metrics.count("erased_on_arrival", len(dropped))
    metrics.count("erased_delayed_writes", sum(row.given.written is not None for row in dropped))
    return [row for (row, _), what in zip(rows, erased, strict=True) if what is None]


def _reindex(tx: database.Transaction, tenant_id: UUID, reworded: list[UUID], former: list[UUID]) -> None:
    """Reindex memories whose words have changed, and their former neighbours."""
    if reworded:
        policy = policies.read_current(tx, tenant_id)
        pii_scan.store(tx, tenant_id, pii_scan.scan(texts.read(tx, tenant_id, reworded), policy))
        cues.delete_outdated(tx, tenant_id, reworded)
        word_index.index_words(tx, tenant_id, [*reworded, *former], policy.language, policy.time_zone)


def _reworded(known: Mapping[UUID, Any], latest: Mapping[str | UUID, NewMemory]) -> list[UUID]:
    """Return the known memories whose text or context fields change."""
    return [
        memory_id
        for memory_id, row in known.items()
        if any(getattr(row, name) != getattr(latest[row.external_id].given, name) for name in ENRICHED_FIELDS)
    ]


def _latest_versions(
    given: Sequence[NewMemory],
) -> tuple[dict[str | UUID, NewMemory], list[tuple[str | UUID, NewMemory]]]:
    """Return the last version of each memory, by external id or own id, and the batch's earlier versions."""
    latest: dict[str | UUID, NewMemory] = {}
    earlier_versions = []
    for row in sorted(given, key=lambda row: row.seq):
        key = row.given.external_id or row.memory_id
        if key in latest:
            earlier_versions.append((key, latest[key]))
            omitted = [name for name in _KEPT if getattr(row.given, name) is None]
            updated = replace(row.given, **{name: getattr(latest[key].given, name) for name in omitted})
            updated = replace(updated, source=as_stored(lowest((updated.source, latest[key].given.source))))
            row = replace(row, given=updated)  # noqa: PLW2901
        latest[key] = row
    return latest, earlier_versions


def _stored_ids(
    given: Sequence[NewMemory], latest: Mapping[str | UUID, NewMemory], aliases: Mapping[UUID, UUID]
) -> list[UUID]:
    """Return the id under which each of these memories is stored, earlier versions included."""
    latest_ids = (latest[row.given.external_id or row.memory_id].memory_id for row in given)
    return [aliases.get(latest_id, latest_id) for latest_id in latest_ids]


def _settle_updates(
    tx: database.Transaction, tenant_id: UUID, updated: Sequence[UUID], writes: Sequence[WriteTime]
) -> None:
    """Record who updated memories, and check their supersessions."""
    provenance.record_writes(tx, tenant_id, writes)
    edited_supersessions.settle_edited(tx, tenant_id, updated)


def _list_writes(given: Sequence[NewMemory], stored_ids: Sequence[UUID], changed: set[UUID]) -> list[WriteTime]:
    """Return the key and time of each row that changed a memory stored under another id."""
    return [
        WriteTime(stored_id, row.written_by, datetime.fromtimestamp(row.accepted_ms / 1000, UTC))
        for row, stored_id in zip(given, stored_ids, strict=True)
        if row.memory_id != stored_id and stored_id in changed
    ]


def _superseded_names(given: Sequence[NewMemory], stored_ids: Sequence[UUID]) -> dict[UUID, list[str]]:
    """Return the names that each memory supersedes, by the memory's stored id, including names in earlier versions."""
    names_by_id: dict[UUID, list[str]] = {}
    for row, stored_id in zip(given, stored_ids, strict=True):
        names_by_id.setdefault(stored_id, []).extend(row.given.superseded)
    return names_by_id


def ensure_space(tenant_id: UUID) -> None:
    """Assign the tenant an embedding space, which may require querying the provider for the model's dimensions."""
    try:
        spaces.ensure_spaces(tenant_id)
    except (ProviderFailed, Misconfigured) as error:
        log.warning("no_embedding_space", tenant=str(tenant_id), error=type(error).__name__)


def write_vectors(
    tx: database.Transaction, tenant_id: UUID, versions: Mapping[UUID, int], vectors: Mapping[UUID, list[float]]
) -> set[UUID]:
    """Write callers' vectors to the tenant's search space.

    The API checked the vectors' size, but the tenant may have moved to another space since. Vectors of another size are
    dropped with a warning, and their memories are embedded like any other.

    Returns:
        The memories that need no further embedding; empty while the tenant is moving, since the target space needs
            vectors too.
    """
    if not vectors:
        return set()
    tenant_spaces = embedding_spaces.lock_tenant_spaces(tx, tenant_id)
    size = tenant_spaces.searched.dimensions if tenant_spaces else None
    fitting = {memory_id: vector for memory_id, vector in vectors.items() if len(vector) == size}
    if len(fitting) < len(vectors):
        log.warning("vectors_left_out", tenant=str(tenant_id), memories=len(vectors) - len(fitting), dimensions=size)
    if tenant_spaces is None or not fitting:
        return set()
    matrix = np.array(list(fitting.values()), dtype=np.float64)
    matrix /= np.abs(matrix).max(axis=1, keepdims=True)  # scaled first, since the squares of large numbers overflow
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    texts = EmbeddingTexts(list(fitting), [versions[memory_id] for memory_id in fitting], [])
    embeddings.write(tx, tenant_id, tenant_spaces.searched.space_id, texts, matrix.astype(np.float32), by_caller=True)
    return set(fitting) if tenant_spaces.target is None else set()
