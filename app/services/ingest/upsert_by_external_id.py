"""Store memories that bulk COPY can't handle: those with an external id, a caller's vector or a supersession.

A repeated external id updates the existing memory; the id returned for the repeat becomes an alias. An envelope
containing any such memory is stored as a whole, with its ledger row, in a transaction of the tenant.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import numpy as np
import structlog
from msgspec.structs import replace

from app import metrics
from app.clients.llm.resilience import ProviderFailed
from app.domain.ingest.ids import first_seq, memory_uuids
from app.domain.ingest.memory import Kind
from app.domain.privacy.late_arrivals import is_buried
from app.errors import Misconfigured
from app.services.consolidation import supersession
from app.services.embedding import spaces
from app.services.enrichment import corrections, pii_scan, texts
from app.services.storage.memory_write import memory_write
from app.services.tiers import cold_restore, reactivation
from app.store.consolidation import supersessions
from app.store.core import database
from app.store.core.binary_copy import Arrival
from app.store.embedding import embedding_spaces, embeddings
from app.store.embedding.embeddings import EmbeddingTexts
from app.store.enrichment import cues, word_index, work_queue
from app.store.erasure import tombstones
from app.store.ingest import envelopes
from app.store.memories import memories
from app.store.memories.memories import ENRICHED_FIELDS, NewMemory
from app.store.privacy import holds
from app.store.strength import states
from app.store.tenants import policies
from app.store.tiers import cold_segments, tiers

_KEPT: Final = ("salience", "multiplier")
"""Fields preserved when an update omits them."""

log = structlog.get_logger(__name__)


def needs_upsert(arrival: Arrival) -> bool:
    """Return whether any memory has an external id or an embedding, or supersedes another memory."""
    return any(
        memory.external_id is not None or memory.embedding is not None or memory.supersedes
        for memory in arrival.memories
    )


def upsert_memories(tenant_id: UUID, careful: Sequence[Arrival]) -> int:
    """Insert the envelopes' memories, or update the memories with their external ids.

    Returns:
        The number of memories inserted or changed; repeating the same content changes nothing.
    """
    by_base = {arrival.base: arrival for arrival in careful}
    if any(memory.embedding is not None for arrival in careful for memory in arrival.memories):
        _ensure_space(tenant_id)
    with memory_write(tenant_id, "content") as write:
        tx = write.tx
        fresh = envelopes.insert_fresh(
            tx, tenant_id, {base: len(arrival.memories) for base, arrival in by_base.items()}
        )
        given = _drop_erased(
            tx, tenant_id, [row for base, arrival in by_base.items() if base in fresh for row in _rows(arrival)]
        )
        if not given:
            return 0
        latest, overtaken = _latest_versions(given)
        keys = [key for key in latest if isinstance(key, str)]
        known = memories.lock_external(tx, tenant_id, keys)
        # A memory under legal hold stays unchanged: the update becomes a new memory that takes over the external id.
        if held := holds.list_by_memory(tx, tenant_id, list(known)):
            for memory_id in holds.remove_external_ids(tx, tenant_id, list(held), list(latest.values())):
                del known[memory_id]
        states.lock(tx, tenant_id, list(known))  # lock order: states before vectors and words
        reworded = _reworded(known, latest)
        # If the update changes the memory's thread, its former neighbours are reindexed too.
        former = word_index.list_neighbours(tx, tenant_id, reworded)
        later = embeddings.remove(tx, tenant_id, reworded)
        write.measure(list(known))
        with write.update(list(known)):
            written = memories.upsert(tx, tenant_id, list(latest.values()))
            memories.set_kinds(tx, tenant_id, _given_kinds(latest, written.aliases))
            updated = list(written.changed & known.keys())
            tiers.mark_due(tx, tenant_id, updated)
        thawed = list(cold_segments.list_locations(tx, tenant_id, updated))
        cold_restore.reactivate_cold(write, thawed, "edit", actor=None)
        later |= embeddings.remove(tx, tenant_id, reworded)
        back = reactivation.restore(write, updated, "edit", actor=None)
        _reindex(tx, tenant_id, reworded, former)
        cold_restore.discard_records(tx, tenant_id, thawed)
        _alias(tx, tenant_id, latest, overtaken, written.aliases)
        vectors = {
            written.aliases.get(row.memory_id, row.memory_id): row.given.embedding
            for row in latest.values()
            if row.given.embedding is not None
        }
        embedded = _write_vectors(tx, tenant_id, written.versions, vectors)
        supersessions.reject_cross_subject(tx, tenant_id, updated)
        corrections.refresh_corrections(tx, tenant_id, updated)
        superseded = supersession.record_statements(tx, tenant_id, _superseded_names(given, latest, written.aliases))
        new = written.changed - known.keys()
        write.measure_inserted(new)
        write.queue([work_queue.INDEX], new)
        write.queue([work_queue.SCORE], written.changed)
        write.queue([work_queue.EMBED], {*new, *reworded, *later} - embedded)
        write.sources_changed(updated)
        write.changed(list(written.changed))
        if superseded:
            write.audit("memories_superseded", ids=superseded, details={"source": "caller"})
        if thawed or back:
            write.audit("memories_restored", ids=[*thawed, *back])
    return len(written.changed)


def _given_kinds(latest: Mapping[str | UUID, NewMemory], aliases: Mapping[UUID, UUID]) -> dict[UUID, Kind]:
    """Return the kinds given by callers, by stored memory id."""
    return {
        aliases.get(row.memory_id, row.memory_id): row.given.kind
        for row in latest.values()
        if row.given.kind is not None
    }


def _alias(
    tx: database.Transaction,
    tenant_id: UUID,
    latest: Mapping[str | UUID, NewMemory],
    overtaken: Sequence[tuple[str | UUID, NewMemory]],
    aliases: Mapping[UUID, UUID],
) -> None:
    """Make the ids returned for repeats aliases of the memories that they updated."""
    through = {row.memory_id: latest[key].memory_id for key, row in overtaken}
    final = {row: aliases.get(stored, stored) for row, stored in through.items()}
    memories.add_aliases(tx, tenant_id, {**aliases, **final})


def _drop_erased(tx: database.Transaction, tenant_id: UUID, given: list[NewMemory]) -> list[NewMemory]:
    """Drop memories of erased subjects and threads that were accepted before the erasure's watermark."""
    if not given:
        return given
    graves = tombstones.since(tx, tenant_id, min(row.accepted_ms for row in given))
    if not graves:
        return given
    key = tombstones.digest_key(tx, tenant_id, os.urandom(32))
    living = [row for row in given if not is_buried(graves, key, row.given, row.seq)]
    metrics.count("erased_on_arrival", len(given) - len(living))
    return living


def _rows(arrival: Arrival) -> Iterator[NewMemory]:
    seq = first_seq(arrival.entry_id)
    ids = memory_uuids(arrival.base, len(arrival.memories))
    for place, (memory_id, memory) in enumerate(zip(ids, arrival.memories, strict=True)):
        yield NewMemory(UUID(memory_id), seq + place, arrival.accepted_ms, memory)


def _reindex(tx: database.Transaction, tenant_id: UUID, reworded: list[UUID], former: list[UUID]) -> None:
    """Reindex memories whose words have changed, and their former neighbours."""
    if reworded:
        policy = policies.read_current(tx, tenant_id)
        pii_scan.store_findings(tx, tenant_id, texts.read(tx, tenant_id, reworded), policy)
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
    """Return the last version of each memory, by external id or own id, and the earlier versions in the same batch."""
    latest: dict[str | UUID, NewMemory] = {}
    overtaken = []
    for row in sorted(given, key=lambda row: row.seq):
        key = row.given.external_id or row.memory_id
        if key in latest:
            overtaken.append((key, latest[key]))
            left_out = [name for name in _KEPT if getattr(row.given, name) is None]
            updated = replace(row.given, **{name: getattr(latest[key].given, name) for name in left_out})
            row = replace(row, given=updated)  # noqa: PLW2901
        latest[key] = row
    return latest, overtaken


def _superseded_names(
    given: Sequence[NewMemory], latest: Mapping[str | UUID, NewMemory], aliases: Mapping[UUID, UUID]
) -> dict[UUID, list[str]]:
    """Return the superseded names by the stored id of the superseding memory, including those of earlier versions."""
    wanted: dict[UUID, list[str]] = {}
    for row in given:
        last = latest[row.given.external_id or row.memory_id].memory_id
        wanted.setdefault(aliases.get(last, last), []).extend(row.given.superseded)
    return wanted


def _ensure_space(tenant_id: UUID) -> None:
    """Assign the tenant an embedding space, which may require asking the provider for the model's dimensions."""
    try:
        spaces.ensure_spaces(tenant_id)
    except (ProviderFailed, Misconfigured) as error:
        log.warning("no_embedding_space", tenant=str(tenant_id), error=type(error).__name__)


def _write_vectors(
    tx: database.Transaction, tenant_id: UUID, versions: Mapping[UUID, int], vectors: Mapping[UUID, list[float]]
) -> set[UUID]:
    """Write callers' vectors to the space that the tenant is searched in.

    The API checked their size, but the tenant may have moved to another space since: vectors of another size are
    dropped with a warning, and their memories are embedded like any other.

    Returns:
        The memories that need no further embedding; empty while the tenant is moving, since the target space needs
            vectors too.
    """
    if not vectors:
        return set()
    there = embedding_spaces.lock_tenant_spaces(tx, tenant_id)
    size = there.searched.dimensions if there else None
    fitting = {memory_id: vector for memory_id, vector in vectors.items() if len(vector) == size}
    if len(fitting) < len(vectors):
        log.warning("vectors_left_out", tenant=str(tenant_id), memories=len(vectors) - len(fitting), dimensions=size)
    if there is None or not fitting:
        return set()
    matrix = np.array(list(fitting.values()), dtype=np.float64)
    matrix /= np.abs(matrix).max(axis=1, keepdims=True)  # first, since squares of large numbers overflow
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    texts = EmbeddingTexts(list(fitting), [versions[memory_id] for memory_id in fitting], [])
    embeddings.write(tx, tenant_id, there.searched.space_id, texts, matrix.astype(np.float32), by_caller=True)
    return set(fitting) if there.target is None else set()
