"""Run the job of an import: read the file in batches, and carry out each batch once, also after the worker was killed.

The position in the file is stored in the transaction that stores a batch's memories. The open reader stays in this
process between the steps; after a restart, records up to the position are read again and skipped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final
from uuid import UUID

from app import failpoints
from app.clients.object_store import StoreFailed
from app.domain.imports.items import (
    RECORDS_MAX,
    DumpedMemory,
    DumpedRow,
    DumpHeader,
    Fault,
    FileRefused,
    Item,
    StandingRow,
)
from app.domain.jobs import Job, Step
from app.domain.tiers.cold_segment import DamagedSegment
from app.services.ingest import import_batch, import_dump, import_dump_rows, import_requests
from app.services.privacy import import_files
from app.store.core import database
from app.store.ingest import imports
from app.store.ingest.imports import Import

STEP_SECONDS: Final = 2.0
BATCH: Final = 4_000
"""Records per batch; at most `ids.BATCH_MAX`, since a batch's memories share one base of ids."""
LOST: Final = "the stored file can't be read: upload it again"
TOO_MANY: Final = f"the file has more than {RECORDS_MAX} records: split it"


@dataclass(slots=True)
class _OpenReader:
    """The reader of the file that this process read last, its position, and an item that was read ahead."""

    import_id: UUID
    position: int
    items: Iterator[Item]
    ahead: Item | None = None
    header: DumpHeader | None = None


_open_reader: _OpenReader | None = None


def run_job_slice(job: Job) -> Step:
    """Import records for `STEP_SECONDS`.

    Raises:
        StoreFailed: The object store is unreachable.
        Misconfigured: The master key is missing or has changed.
    """
    tenant_id, import_id = job.tenant_id, UUID(job.parameters["import_id"])
    deadline, done = time.monotonic() + STEP_SECONDS, 0
    counts: dict[str, int] = {}
    while True:
        with database.tenant(tenant_id) as tx:
            found = imports.get(tx, tenant_id, import_id)
        if found is None or found.status != "running":
            failure = None if found is None or found.status == "done" else found.failure
            return Step(done, {}, finished=True, counts=counts, failure=failure)
        try:
            batch = _read_batch(tenant_id, found)
            outcome = _carry_out(tenant_id, found, batch) if batch and _fits(found, batch) else {}
        except (FileRefused, DamagedSegment) as error:
            return _fail(tenant_id, found, done, counts, str(error) if isinstance(error, FileRefused) else LOST)
        except StoreFailed as error:
            if error.lost:
                return _fail(tenant_id, found, done, counts, LOST)
            raise
        if batch is None or not _fits(found, batch):
            return _fail(tenant_id, found, done, counts, LOST if batch is None else TOO_MANY)
        if not batch:
            return _end(tenant_id, found, done, counts)
        for name, number in outcome.items():
            counts[name] = counts.get(name, 0) + number
        failpoints.trigger("import.after_batch")
        done += len(batch)
        if time.monotonic() >= deadline:
            return Step(done, {}, finished=False, counts=counts)


def _end(tenant_id: UUID, found: Import, done: int, counts: dict[str, int]) -> Step:
    _close_reader()
    if found.format == "dump" and not found.dry_run:
        import_dump_rows.start_moves(tenant_id)
    import_files.end_imports(tenant_id, [found.import_id], "done")
    return Step(done, {}, finished=True, counts=counts)


def _fits(found: Import, batch: list[Item]) -> bool:
    return found.position + len(batch) <= RECORDS_MAX


def _carry_out(tenant_id: UUID, found: Import, batch: list[Item]) -> dict[str, int]:
    header = _open_reader.header if _open_reader is not None else None
    if header is None:
        return import_batch.carry_out(tenant_id, found, batch)
    skipped = [(item.place, item.reason) for item in batch if isinstance(item, Fault)]
    standing = [item for item in batch if isinstance(item, StandingRow)]
    if standing:
        return import_dump_rows.load_standing(tenant_id, found, header, len(batch), standing, skipped)
    rows = [item for item in batch if isinstance(item, DumpedRow)]
    if rows:
        return import_dump_rows.load_connecting(tenant_id, found, header, len(batch), rows, skipped)
    memories = [item for item in batch if isinstance(item, DumpedMemory)]
    return import_dump.load_memories(tenant_id, found, header, len(batch), memories, skipped)


def clean_cancelled(job: Job) -> None:
    """Delete the file of a cancelled import; what it has stored remains."""
    _close_reader()
    import_requests.end_cancelled(job.tenant_id, UUID(job.parameters["import_id"]))


def _read_batch(tenant_id: UUID, found: Import) -> list[Item] | None:
    """Return the next records after the import's position; empty at the end, None if the file's key was destroyed."""
    global _open_reader  # noqa: PLW0603 - process-wide state
    reader = _open_reader
    if reader is None or (reader.import_id, reader.position) != (found.import_id, found.position):
        _close_reader()
        opened = import_files.open_file(tenant_id, found)
        if opened is None:
            return None
        header = next(opened.items) if found.format == "dump" else None
        if isinstance(header, DumpHeader):
            accept = opened.options.accept
            import_dump.check_header(tenant_id, header, found.requested_by, accept=accept, dry_run=found.dry_run)
        for _ in islice(opened.items, found.position):
            pass
        reader = _OpenReader(found.import_id, found.position, opened.items)
        reader.header = header if isinstance(header, DumpHeader) else None
    try:
        batch = _take(reader)
    except BaseException:
        _close_reader()
        raise
    reader.position += len(batch)
    _open_reader = reader
    return batch


def _take(reader: _OpenReader) -> list[Item]:
    """Return the next items of one class, with faults among them; memories and links are stored differently."""
    batch = [] if reader.ahead is None else [reader.ahead]
    reader.ahead = None
    kinds = {type(item) for item in batch if not isinstance(item, Fault)}
    for item in reader.items:
        if not isinstance(item, Fault):
            kinds.add(type(item))
            if len(kinds) > 1:
                reader.ahead = item
                break
        batch.append(item)
        if len(batch) == BATCH:
            break
    return batch


def _close_reader() -> None:
    global _open_reader  # noqa: PLW0603 - process-wide state
    _open_reader = None


def _fail(tenant_id: UUID, found: Import, done: int, counts: dict[str, int], failure: str) -> Step:
    _close_reader()
    import_files.end_imports(tenant_id, [found.import_id], "failed", failure)
    return Step(done, {}, finished=True, counts=counts, failure=failure)
