"""Load a dump: memories keep their ids, times, history and strength; what was erased since isn't loaded.

A batch is one transaction with the import's position. In the installation that wrote the dump, the tombstones and
the ledger of erasures show what was erased since; elsewhere this is unknown, and the caller has to accept that.
Memories that were archived or in cold storage are archived at once; `import_dump_rows` loads the rows of other tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import numpy as np

from app import metrics, queues
from app.domain.dynamics import state as states
from app.domain.dynamics.profiles import rebase
from app.domain.dynamics.state import State
from app.domain.dynamics.timeline import Era, Timeline
from app.domain.imports.items import DumpedMemory, DumpedPolicy, DumpHeader, FileRefused
from app.domain.ingest.memory import MemoryIn
from app.domain.ingest.sources import as_stored, lowest
from app.domain.policy.policy import Policy
from app.domain.privacy.late_arrivals import matches_scope
from app.domain.privacy.legal_hold import Scope
from app.services.ingest import late_writes, upsert_by_external_id
from app.services.security import audit
from app.services.storage.memory_write import MemoryWrite, memory_write
from app.services.strength import memory_strength
from app.services.tiers import archive
from app.services.tiers.pca_fitting import ChosenBasis
from app.store.core import database
from app.store.enrichment import work_queue
from app.store.erasure import requests
from app.store.ingest import imports, loaded_rows
from app.store.ingest.imports import Import
from app.store.ingest.loaded_rows import RowsRefused
from app.store.memories import provenance
from app.store.memories.provenance import WriteTime
from app.store.memories.tenant_counts import NONE
from app.store.tenants import policies

ELSEWHERE: Final = (
    "the dump is from another installation: remove the subjects that were erased there since, then set `accept`"
)
DELETED: Final = "the dump's tenant was deleted in this installation"
NO_PROFILE: Final = "the dump's policy can't be read here: it needs another version or a custom profile"
ERASED: Final = "was erased after the dump, or an erasure covers it"
NAMED: Final = "another memory has its external_id"
DERIVED: Final = "was summarised from a memory that was erased after the dump, or that an erasure covers"
EXPIRED: Final = "expires_at has passed"
_SAME_MOMENT_SECONDS: Final = 1e-3
_LOWER: Final = ("archived", "cold")
_INPUTS: Final = ("kind", "salience", "multiplier", "pace", "access_count")
_MOMENTS: Final = ("created_at", "accessed_at")
_ANCHOR: Final = ("anchored_at", "level", "retrieval", "stability")

Skipped = list[tuple[int, str]]


def check_header(tenant_id: UUID, header: DumpHeader, actor: str, *, accept: bool, dry_run: bool) -> None:
    """Check that a dump may be loaded; give a tenant with no memories and only its first policy the dump's policies.

    Raises:
        FileRefused: The dump isn't allowed here, or its policy can't be read.
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
        if loaded_rows.is_untouched(tx, tenant_id):
            _take_over(tx, tenant_id, header, policy, actor)


def _take_over(tx: database.Transaction, tenant_id: UUID, header: DumpHeader, policy: Policy, actor: str) -> None:
    """Give an untouched tenant the dump's policies, earlier and scheduled ones included, and its settings.

    Raises:
        FileRefused: A policy can't be read, or a setting is invalid.
    """
    number = max((version for version, *_ in policies.list_versions(tx, tenant_id)), default=0)
    is_known = policies.read_current(tx, tenant_id) == policy and len(header.policies) <= 1
    now = database.now(tx).timestamp()
    alone = DumpedPolicy(1, header.policy, now, is_current=True, author=None)
    given = [] if is_known else header.policies or [alone]
    for version in given:
        number += 1
        effective_at = datetime.fromtimestamp(version.effective_at, UTC)
        author: policies.Author | None = "learned" if version.author == "learned" else None
        policies.add(tx, tenant_id, number, _read_policy(version.policy), effective_at, author)
        audit.append(tx, tenant_id, "policy_set", actor, details={"version": number})
    try:
        loaded_rows.write_settings(tx, tenant_id, header.settings)
    except RowsRefused as refused:
        raise FileRefused(str(refused)) from None


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
    if any(item.vector for item in items):
        upsert_by_external_id.ensure_space(tenant_id)
    basis = archive.current_basis(tenant_id)
    with memory_write(tenant_id, "content", "load.before_commit") as write:
        tx = write.tx
        now = database.now(tx)
        current = imports.lock(tx, tenant_id, found.import_id)
        if current is None or current.status != "running" or current.position != found.position:
            return {}
        chosen, unchanged = _choose(tx, tenant_id, items, erased, now, skipped)
        counts = {"stored": len(chosen), "unchanged": unchanged, "skipped": len(skipped)}
        if chosen and not found.dry_run:
            is_own = header.tenant_id == tenant_id
            loaded = [_stamped(item, found.key_source, is_own=is_own) for item in chosen]
            _store(write, loaded, header, now.timestamp(), basis)
            writes = [WriteTime(item.memory_id, found.requested_by, now) for item in loaded]
            provenance.record_writes(tx, tenant_id, writes)
        counts = {name: number for name, number in counts.items() if number}
        imports.record_progress(tx, tenant_id, current, records=records, counts=counts, skipped=sorted(skipped))
    if counts.get("stored") and not found.dry_run:
        metrics.count("stored_memories", counts["stored"])
        queues.nudge(queues.INDEX)
        queues.nudge(queues.EMBED_MEMORIES)
    return counts


def _choose(
    tx: database.Transaction,
    tenant_id: UUID,
    items: Sequence[DumpedMemory],
    erased: AbstractSet[UUID],
    now: datetime,
    skipped: Skipped,
) -> tuple[list[DumpedMemory], int]:
    """Return the memories to insert, and the number of memories already stored; add the others to `skipped`."""
    stored = loaded_rows.find_stored(tx, tenant_id, [item.memory_id for item in items])
    names = loaded_rows.find_names(tx, tenant_id, [item.given.external_id for item in items if item.given.external_id])
    scopes = list(requests.coming(tx, tenant_id).scopes.values())
    chosen: dict[UUID, DumpedMemory] = {}
    unchanged = 0
    for item in items:
        if item.memory_id in stored or item.memory_id in chosen:
            unchanged += 1
        elif (reason := _find_reason(item, erased, scopes, names, now)) is not None:
            skipped.append((item.place, reason))
        else:
            chosen[item.memory_id] = item
    return list(chosen.values()), unchanged


def _find_reason(
    item: DumpedMemory, erased: AbstractSet[UUID], scopes: Sequence[Scope], names: AbstractSet[str], now: datetime
) -> str | None:
    """Return why a memory isn't loaded, or None."""
    accepted_ms = _accepted_ms(item)
    if item.memory_id in erased or any(matches_scope(scope, item.given, accepted_ms) for scope in scopes):
        return ERASED
    for source_id, _, given in item.sources:
        if source_id in erased or any(matches_scope(scope, given, accepted_ms) for scope in scopes):
            return DERIVED
    if item.given.external_id in names:
        return NAMED
    is_expired = item.given.expires_at is not None and item.given.expires_at <= now
    return EXPIRED if is_expired else None


def _store(
    write: MemoryWrite,
    loaded: Sequence[DumpedMemory],
    header: DumpHeader,
    now: float,
    basis: ChosenBasis | None,
) -> None:
    """Insert memories, and archive at once those that were archived or in cold storage."""
    tx, tenant_id = write.tx, write.tenant_id
    era = _insert(write, loaded, header, memory_strength.load_timeline(tx, tenant_id), now)
    ids = {item.memory_id for item in loaded}
    write.measure_inserted(ids)
    vectors = {item.memory_id: item.vector for item in loaded if item.vector}
    versions = {item.memory_id: int(item.memory.get("text_version") or 1) for item in loaded}
    embedded = upsert_by_external_id.write_vectors(tx, tenant_id, versions, vectors)
    archived = sorted(item.memory_id for item in loaded if item.state.get("tier") in _LOWER)
    if archived:
        archive.deindex(tx, tenant_id, archived, era.policy, basis)
        write.move(archived, "archived", NONE, {})  # counted as inserted
    active = ids.difference(archived)
    write.queue([work_queue.INDEX], active)
    write.queue([work_queue.EMBED], active - embedded)
    write.queue([work_queue.SCORE], [item.memory_id for item in loaded if item.state.get("salience") is None])


def _accepted_ms(item: DumpedMemory) -> int:
    return int(datetime.fromisoformat(str(item.memory["created_at"])).timestamp() * 1000)


def _find_erased(source_id: UUID, items: Sequence[DumpedMemory]) -> set[UUID]:
    """Return the ids of memories and summaries' sources that the dump's tenant erased; none in other installations."""
    known = {item.memory_id: (item.seq, item.given) for item in items}
    known |= {memory_id: (seq, given) for item in items for memory_id, seq, given in item.sources}
    with database.tenant(source_id) as tx:
        erased = loaded_rows.find_erased(tx, source_id, list(known))
        covered = late_writes.find_erased(tx, source_id, [(given, seq) for seq, given in known.values()])
    return erased | {memory_id for memory_id, what in zip(known, covered, strict=True) if what is not None}


def find_buried(source_id: UUID, rows: Sequence[Mapping[str, Any]]) -> list[bool]:
    """Return for each row whether the dump's tenant erased its subject or thread; False in another installation."""
    named = [(MemoryIn("-", _name(row, "subject"), _name(row, "thread")), 0) for row in rows]
    with database.tenant(source_id) as tx:
        return [what is not None for what in late_writes.find_erased(tx, source_id, named)]


def _name(row: Mapping[str, Any], field: str) -> str | None:
    value = row.get(field)
    return value if isinstance(value, str) else None


def _insert(
    write: MemoryWrite,
    items: Sequence[DumpedMemory],
    header: DumpHeader,
    times: Timeline,
    now: float,
) -> Era:
    """Insert the rows, anchored under the policy in force; return its era."""
    state, era = _build_state(items), times.at(now)
    version = _find_version(times, header, now)
    is_same = version == era.version
    if version is not None:  # the timeline has the dump's policy and all that followed
        state = times.advance_to(state, np.full(len(items), version), now)
    elif (source := _read_policy(header.policy).model) != era.dynamics:
        state = rebase(state, now, source, era.dynamics)
    by_table: dict[str, list[Mapping[str, Any]]] = {name: [] for name in loaded_rows.TABLES}
    for row, item in enumerate(items):
        memory_id = {"memory_id": str(item.memory_id)}
        anchor: dict[str, Any] = {name: float(getattr(state, name)[row]) for name in _ANCHOR}
        anchor["anchored_at"] = datetime.fromtimestamp(anchor["anchored_at"], UTC).isoformat()
        fresh = {"tier": "active", "policy_version": era.version} | ({} if is_same else {"next_due_at": "-infinity"})
        by_table["memories"].append(item.memory | memory_id)
        by_table["memory_state"].append(item.state | memory_id | anchor | fresh)
        if item.score is not None:
            by_table["scores"].append(item.score | memory_id)
        by_table["memory_events"] += [event | memory_id for event in item.events]
    try:
        for table, rows in by_table.items():
            loaded_rows.insert_rows(write.tx, write.tenant_id, table, rows)
    except RowsRefused as refused:
        raise FileRefused(str(refused)) from None
    return era


def find_shift(tx: database.Transaction, tenant_id: UUID, header: DumpHeader) -> int | None:
    """Return the dump's policy version here minus its version in the dump; None if the tenant lacks the policy."""
    times = memory_strength.load_timeline(tx, tenant_id)
    version = _find_version(times, header, database.now(tx).timestamp())
    current = next((each.version for each in header.policies if each.is_current), 0)
    return None if version is None else version - current


def _find_version(times: Timeline, header: DumpHeader, now: float) -> int | None:
    """Return the version of the dump's policy: taken over from the dump, or in force now; None if there is neither."""
    policy, era = _read_policy(header.policy), times.at(now)
    since = next((each.effective_at for each in header.policies if each.is_current), None)
    taken_over = (
        known.version
        for known in times.until(now)
        if since is not None and abs(known.since - since) < _SAME_MOMENT_SECONDS and known.policy == policy
    )
    return next(taken_over, era.version if era.policy == policy else None)


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
