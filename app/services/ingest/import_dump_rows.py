"""Load a dump's rows of other tables: holds and retention before the memories; links, merges and reviews after them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID, uuid4

from app import queues
from app.domain.imports.dump import AVERAGES, MERGES, OF_POLICY
from app.domain.imports.items import DumpedRow, DumpHeader, FileRefused, StandingRow
from app.services.ingest import import_dump
from app.services.privacy import legal_holds
from app.services.storage.memory_write import MemoryWrite, memory_write
from app.services.tiers import archive, cold_storage
from app.store.core import database
from app.store.embedding import embedding_spaces
from app.store.enrichment import work_queue
from app.store.ingest import imports, loaded_rows
from app.store.ingest.imports import Import
from app.store.ingest.loaded_rows import RowsRefused
from app.store.jobs import jobs
from app.store.privacy import holds
from app.store.tiers import archive as archived_memories
from app.store.tiers import tiers

OTHER_POLICY: Final = "belongs to the dump's policy, which this tenant doesn't have"

Skipped = list[tuple[int, str]]


def load_standing(
    tenant_id: UUID, found: Import, header: DumpHeader, records: int, items: Sequence[StandingRow], skipped: Skipped
) -> dict[str, int]:
    """Insert missing holds and retention periods, record the progress, and return the number of records by outcome.

    Rows about subjects that were erased since the dump are left out.

    Raises:
        FileRefused: A row violates a constraint.
    """
    buried = import_dump.find_buried(header.tenant_id, [item.row for item in items])
    skipped += [(item.place, import_dump.ERASED) for item, is_gone in zip(items, buried, strict=True) if is_gone]
    kept = [item for item, is_gone in zip(items, buried, strict=True) if not is_gone]
    with database.tenant(tenant_id) as tx:
        holds.lock_exclusive(tx, tenant_id)
        current = imports.lock(tx, tenant_id, found.import_id)
        if current is None or current.status != "running" or current.position != found.position:
            return {}
        inserted = len(kept) if found.dry_run else 0
        if not found.dry_run:
            for table, rows in _by_table(kept).items():
                inserted += _insert_standing(tx, tenant_id, table, rows, found.requested_by)
        counts = {"standing": inserted, "skipped": len(skipped)}
        counts = {name: number for name, number in counts.items() if number}
        imports.record_progress(tx, tenant_id, current, records=records, counts=counts, skipped=sorted(skipped))
    return counts


def _by_table(items: Sequence[StandingRow | DumpedRow]) -> dict[str, list[dict[str, Any]]]:
    by_table: dict[str, list[dict[str, Any]]] = {}
    for item in items:
        by_table.setdefault(item.table, []).append(item.row)
    return by_table


def _insert_standing(
    tx: database.Transaction, tenant_id: UUID, table: str, rows: Sequence[Mapping[str, Any]], actor: str
) -> int:
    """Insert rows, and append an audit entry for each new hold in force; return the number of new rows."""
    hold_ids = [str(row.get("hold_id")) for row in rows] if table == "holds" else []
    try:
        known = {hold.hold_id for hold in holds.list_among(tx, tenant_id, hold_ids)}
        inserted = loaded_rows.insert_standing(tx, tenant_id, table, rows)
    except RowsRefused as refused:
        raise FileRefused(str(refused)) from None
    for hold in holds.list_among(tx, tenant_id, hold_ids):
        if hold.hold_id not in known and hold.released_at is None:
            legal_holds.audit_hold(tx, tenant_id, "hold_placed", hold, actor)
    return inserted


def load_connecting(
    tenant_id: UUID, found: Import, header: DumpHeader, records: int, items: Sequence[DumpedRow], skipped: Skipped
) -> dict[str, int]:
    """Insert rows about stored memories, record the progress, and return the number of records by outcome.

    Raises:
        FileRefused: A row violates a constraint.
    """
    freed: list[UUID] = []
    with database.tenant(tenant_id) as tx:
        shift = import_dump.find_shift(tx, tenant_id, header)
    if shift is None:
        skipped += [(item.place, OTHER_POLICY) for item in items if item.table in OF_POLICY]
        items = [item for item in items if item.table not in OF_POLICY]
    else:
        items = [_shift_version(item, shift) for item in items]
    with memory_write(tenant_id, "content", "load.before_commit") as write:
        tx = write.tx
        current = imports.lock(tx, tenant_id, found.import_id)
        if current is None or current.status != "running" or current.position != found.position:
            return {}
        inserted = 0
        if not found.dry_run:
            try:
                for table, rows in _by_table(items).items():
                    if table == MERGES:
                        added, freed = loaded_rows.insert_merges(tx, tenant_id, rows)
                    elif table == AVERAGES:
                        added = loaded_rows.insert_standing(tx, tenant_id, table, rows)
                    else:
                        added = loaded_rows.insert_connecting(tx, tenant_id, table, rows)
                    inserted += added
            except RowsRefused as refused:
                raise FileRefused(str(refused)) from None
        freed = _restore_sources(write, freed) if freed else []
        counts = {"links": len(items) if found.dry_run else inserted, "skipped": len(skipped)}
        counts = {name: number for name, number in counts.items() if number}
        imports.record_progress(tx, tenant_id, current, records=records, counts=counts, skipped=sorted(skipped))
    if freed:
        queues.nudge(queues.INDEX)
        queues.nudge(queues.EMBED_MEMORIES)
    return counts


def _shift_version(item: DumpedRow, shift: int) -> DumpedRow:
    version = item.row.get("policy_version")
    return item._replace(row=item.row | {"policy_version": version + shift}) if isinstance(version, int) else item


def _restore_sources(write: MemoryWrite, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Make archived sources active if their summary, which has their content, wasn't loaded; return their ids."""
    tx, tenant_id = write.tx, write.tenant_id
    archived = archived_memories.filter_archived(tx, tenant_id, sorted(set(memory_ids)))
    if archived:
        write.measure(archived)
        spaces = embedding_spaces.lock_tenant_spaces(tx, tenant_id)
        space_id = spaces.searched.space_id if spaces else None
        without_vector = archived_memories.restore_rows(tx, tenant_id, space_id, archived)
        tiers.restore(tx, tenant_id, archived, None)
        write.queue([work_queue.INDEX], archived)
        write.queue([work_queue.EMBED], without_vector)
    return archived


def start_moves(tenant_id: UUID) -> None:
    """Create the jobs that compute the vectors of loaded archived memories, and that move cold ones to cold storage."""
    with database.tenant(tenant_id) as tx:
        archived, cold = loaded_rows.find_lower(tx, tenant_id)
        if archived:
            jobs.add(tx, uuid4(), tenant_id, archive.KIND, {}, lone=True)
        if cold:
            jobs.add(tx, uuid4(), tenant_id, cold_storage.KIND, {}, lone=True)
