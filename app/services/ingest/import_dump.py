"""Load a dump: memories keep their ids, times, history and strength; what was erased since isn't loaded.

A batch is one transaction with the import's position. In the installation that wrote the dump, its tombstones and its
ledger of erasures say what was erased since; elsewhere the caller has to accept that nobody knows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import numpy as np

from app import metrics, queues
from app.domain.dynamics import state as states
from app.domain.dynamics.profiles import rebase
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import State
from app.domain.dynamics.timeline import Era
from app.domain.imports.items import DumpedMemory, DumpedRow, DumpHeader, FileRefused
from app.domain.ingest.sources import as_stored, lowest
from app.domain.policy.policy import Policy
from app.domain.privacy.late_arrivals import is_buried, matches_scope
from app.services.security import audit
from app.services.storage.memory_write import memory_write
from app.services.strength import memory_strength
from app.store.core import database
from app.store.enrichment import work_queue
from app.store.erasure import requests, tombstones
from app.store.ingest import imports, loaded_rows
from app.store.ingest.imports import Import
from app.store.ingest.loaded_rows import RowsRefused
from app.store.memories import provenance
from app.store.memories.provenance import WriteTime
from app.store.tenants import policies

ELSEWHERE: Final = (
    "the dump is from another installation: remove the subjects that were erased there since, and accept this (accept)"
)
DELETED: Final = "the dump's tenant was deleted in this installation"
NO_PROFILE: Final = "the dump's policy can't be read here: it needs another version or a custom profile"
ERASED: Final = "was erased after the dump, or an erasure covers it"
NAMED: Final = "another memory has its external_id"
UNCONNECTED: Final = "it connects memories that aren't stored, or exists already"
EXPIRED: Final = "expires_at has passed"
_KEY_BYTES: Final = 32
_INPUTS: Final = ("kind", "salience", "multiplier", "pace", "access_count")
_MOMENTS: Final = ("created_at", "accessed_at")
_ANCHOR: Final = ("anchored_at", "level", "retrieval", "stability")

Skipped = list[tuple[int, str]]


def check_header(tenant_id: UUID, header: DumpHeader, actor: str, *, accept: bool, dry_run: bool) -> None:
    """Check that a dump may be loaded, and give an untouched tenant its policy.

    Raises:
        FileRefused: It may not be loaded, or its policy can't be read.
    """
    policy = _read_policy(header.policy)
    with database.shared() as tx:
        source = loaded_rows.read_source(tx, header.tenant_id)
    if source == "deleted":
        raise FileRefused(DELETED)
    if source is None and not accept:
        raise FileRefused(ELSEWHERE)
    if dry_run:
        return
    with database.tenant(tenant_id) as tx:
        policies.lock(tx, tenant_id)
        if loaded_rows.is_untouched(tx, tenant_id) and policies.read_current(tx, tenant_id) != policy:
            versions = policies.list_versions(tx, tenant_id)
            number = max((version for version, *_ in versions), default=0) + 1
            policies.add(tx, tenant_id, number, policy)
            audit.append(tx, tenant_id, "policy_set", actor, details={"version": number})


def _read_policy(body: str) -> Policy:
    try:
        policy = Policy.load_stored(body)
        _ = policy.model
    except (ValueError, KeyError, TypeError):
        raise FileRefused(NO_PROFILE) from None
    return policy


def load_memories(
    tenant_id: UUID, found: Import, header: DumpHeader, records: int, items: Sequence[DumpedMemory], skipped: Skipped
) -> dict[str, int]:
    """Insert memories that aren't stored, and record the import's progress. Return the number of records by outcome.

    Raises:
        FileRefused: A row violates a constraint.
    """
    erased = _find_erased(header.tenant_id, items)
    source = _read_policy(header.policy).model
    with memory_write(tenant_id, "content") as write:
        tx = write.tx
        now = database.now(tx)
        current = imports.lock(tx, tenant_id, found.import_id)
        if current is None or current.status != "running" or current.position != found.position:
            return {}
        stored = loaded_rows.find_stored(tx, tenant_id, [item.memory_id for item in items])
        names = loaded_rows.find_names(
            tx, tenant_id, [item.given.external_id for item in items if item.given.external_id]
        )
        scopes = requests.coming(tx, tenant_id).scopes.values()
        chosen: dict[UUID, DumpedMemory] = {}
        unchanged = 0
        for item in items:
            reason = None
            if item.memory_id in stored or item.memory_id in chosen:
                unchanged += 1
                continue
            if item.memory_id in erased or any(
                matches_scope(scope, item.given, _accepted_ms(item)) for scope in scopes
            ):
                reason = ERASED
            elif item.given.external_id in names:
                reason = NAMED
            elif item.given.expires_at is not None and item.given.expires_at <= now:
                reason = EXPIRED
            if reason is not None:
                skipped.append((item.place, reason))
                continue
            chosen[item.memory_id] = item
        counts = {"stored": len(chosen), "unchanged": unchanged, "skipped": len(skipped)}
        if chosen and not found.dry_run:
            era = memory_strength.load_timeline(tx, tenant_id).at(now.timestamp())
            is_own = header.tenant_id == tenant_id
            loaded = [_stamped(item, found.key_source, is_own=is_own) for item in chosen.values()]
            _insert(tx, tenant_id, loaded, source, era, now.timestamp())
            writes = [WriteTime(item.memory_id, found.requested_by, now) for item in loaded]
            provenance.record_writes(tx, tenant_id, writes)
            write.measure_inserted(list(chosen))
            write.queue([work_queue.INDEX, work_queue.EMBED], list(chosen))
            write.queue([work_queue.SCORE], [item.memory_id for item in loaded if item.state.get("salience") is None])
        counts = {name: number for name, number in counts.items() if number}
        imports.record_progress(tx, tenant_id, current, records=records, counts=counts, skipped=sorted(skipped))
    if counts.get("stored") and not found.dry_run:
        metrics.count("stored_memories", counts["stored"])
        queues.nudge(queues.INDEX)
        queues.nudge(queues.EMBED_MEMORIES)
    return counts


def _accepted_ms(item: DumpedMemory) -> int:
    return int(datetime.fromisoformat(str(item.memory["created_at"])).timestamp() * 1000)


def _find_erased(source_id: UUID, items: Sequence[DumpedMemory]) -> set[UUID]:
    """Return the memories that were erased from the dump's tenant, if it is in this installation."""
    with database.tenant(source_id) as tx:
        erased = loaded_rows.find_erased(tx, source_id, [item.memory_id for item in items])
        graves = tombstones.since(tx, source_id, 0)
        key = tombstones.digest_key(tx, source_id, os.urandom(_KEY_BYTES)) if graves else b""
    return erased | {item.memory_id for item in items if graves and is_buried(graves, key, item.given, item.seq)}


def _insert(
    tx: database.Transaction,
    tenant_id: UUID,
    items: Sequence[DumpedMemory],
    source: Dynamics,
    era: Era,
    now: float,
) -> None:
    state = _build_state(items)
    if source != era.dynamics:
        state = rebase(state, now, source, era.dynamics)
    by_table: dict[str, list[Mapping[str, Any]]] = {name: [] for name in loaded_rows.TABLES}
    for row, item in enumerate(items):
        memory_id = {"memory_id": str(item.memory_id)}
        anchor: dict[str, Any] = {name: float(getattr(state, name)[row]) for name in _ANCHOR}
        anchor["anchored_at"] = datetime.fromtimestamp(anchor["anchored_at"], UTC).isoformat()
        fresh = {"tier": "active", "policy_version": era.version, "next_due_at": "-infinity"}
        by_table["memories"].append(item.memory | memory_id)
        by_table["memory_state"].append(item.state | memory_id | anchor | fresh)
        if item.score is not None:
            by_table["scores"].append(item.score | memory_id)
        by_table["memory_events"] += [event | memory_id for event in item.events]
    try:
        for table, rows in by_table.items():
            loaded_rows.insert_rows(tx, tenant_id, table, rows)
    except RowsRefused as refused:
        raise FileRefused(str(refused)) from None


def _stamped(item: DumpedMemory, key_source: str | None, *, is_own: bool) -> DumpedMemory:
    """Return a memory with the source that it had, no higher than that of the loading key.

    Args:
        is_own: The dump is the tenant's own, so the id of the key that wrote the memory stays; otherwise it is removed.
    """
    written_by = item.memory.get("written_by") if is_own else None
    source = as_stored(lowest((item.given.source, key_source)))
    return item._replace(memory=item.memory | {"source": source, "written_by": written_by})


def _build_state(items: Sequence[DumpedMemory]) -> State:
    """Return the dumped states as arrays of shape (n,)."""

    def numbers(name: str) -> Any:
        return np.array([float(item.state.get(name) or 0) for item in items], np.float64)

    def moments(name: str) -> Any:
        texts = [str(item.state.get(name) or item.memory["created_at"]) for item in items]
        return np.array([datetime.fromisoformat(text).timestamp() for text in texts], np.float64)

    columns = {name: numbers(name) for name in (*_INPUTS, *_ANCHOR)} | {name: moments(name) for name in _MOMENTS}
    return replace(states.new(columns["created_at"]), **columns)


def load_connecting(
    tenant_id: UUID, found: Import, records: int, items: Sequence[DumpedRow], skipped: Skipped
) -> dict[str, int]:
    """Insert rows that connect stored memories, and record the import's progress.

    Raises:
        FileRefused: A row violates a constraint.
    """
    with database.tenant(tenant_id) as tx:
        current = imports.lock(tx, tenant_id, found.import_id)
        if current is None or current.status != "running" or current.position != found.position:
            return {}
        inserted = 0
        by_table: dict[str, list[dict[str, Any]]] = {}
        for item in items:
            by_table.setdefault(item.table, []).append(item.row)
        if not found.dry_run:
            try:
                for table, rows in by_table.items():
                    inserted += loaded_rows.insert_connecting(tx, tenant_id, table, rows)
            except RowsRefused as refused:
                raise FileRefused(str(refused)) from None
        counts = {"links": len(items) if found.dry_run else inserted, "skipped": len(skipped)}
        counts = {name: number for name, number in counts.items() if number}
        imports.record_progress(tx, tenant_id, current, records=records, counts=counts, skipped=sorted(skipped))
    return counts
