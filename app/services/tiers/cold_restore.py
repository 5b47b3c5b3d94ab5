"""Restore memories from cold storage: fetch records by byte range, verify them, and write their contents back.

A missing or damaged record fails only its own memory, and the outcome names the reason. A memory whose record
moves during all three attempts fails, too, but isn't logged. A restored record leaves a gap in its segment, and its key
is destroyed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import msgspec
import structlog

from app import failpoints, metrics, queues
from app.clients.object_store import ColdStore, StoreFailed, cold_store
from app.domain.ingest.json_input import precompile
from app.domain.ingest.memory import COLD
from app.domain.jobs import Job, Step
from app.domain.privacy.audit_chain import SYSTEM
from app.domain.tiers import cold_segment, encryption
from app.domain.tiers.cold_segment import DamagedSegment
from app.services.jobs import queue
from app.services.security import encryption_keys
from app.services.storage.memory_write import MemoryWrite, memory_write
from app.services.tiers import reactivation
from app.store.core import database
from app.store.enrichment import work_queue
from app.store.strength import states
from app.store.tiers import cold_segments, wrapped_keys
from app.store.tiers.cold_segments import ColdLocation

KIND: Final = "restore"
ROWS: Final = 500
IDS_MAX: Final = 1000
GAPS_MAX_BYTES: Final = 64 << 10
"""Largest gap between records of a segment that are fetched in one range."""
NOT_COLD: Final = "not in cold storage"
KEY_GONE: Final = "its key was destroyed"
MOVING: Final = "its segment is being rewritten: try again"
_LOOKS: Final = 3

log = structlog.get_logger(__name__)


# Fields that were added later have defaults, because older records lack them.
_RecordBody: Final = precompile(
    msgspec.defstruct(
        "_RecordBody",
        [("text", str), ("links", list[dict[str, Any]])]
        + [(field.name, field.plain, field.default) for field in COLD if not field.is_required],
        frozen=True,
    )
)
"""Schema of a record's content."""


@dataclass(frozen=True, slots=True)
class RestoreOutcome:
    """The result of a restore.

    Attributes:
        restored: The restored memories, in id order.
        failed: The reason for each memory that couldn't be restored, a fixed phrase.
    """

    restored: list[UUID]
    failed: dict[UUID, str]


def job_parameters(memory_ids: Sequence[UUID], rule: str = "use") -> dict[str, Any]:
    """Return the parameters of a job that restores these memories because of a use or manually (rule `use` or `hand`).

    Raises:
        ValueError: There are more than `IDS_MAX` memories.
    """
    if len(memory_ids) > IDS_MAX:
        raise ValueError(f"{len(memory_ids)} memories: a job restores at most {IDS_MAX}")
    parameters: dict[str, Any] = {"ids": [str(memory_id) for memory_id in memory_ids]}
    return parameters if rule == "use" else parameters | {"rule": rule}


def start(tenant_id: UUID, memory_ids: Sequence[UUID]) -> UUID:
    """Create a job that restores the first `IDS_MAX` of these memories, and return its id."""
    return queue.create(tenant_id, KIND, job_parameters(memory_ids[:IDS_MAX]), lone=False)


def run_job_slice(job: Job) -> Step:
    """Restore some of a job's memories.

    Raises:
        StoreFailed: The store is unreachable or denies access.
        Misconfigured: The master key is missing or has changed.
    """
    ids = [UUID(each) for each in job.parameters["ids"]]
    begin = job.state.get("next", 0)
    outcome = restore(job.tenant_id, ids[begin : begin + ROWS], job.parameters.get("rule", "use"))
    end = begin + ROWS
    notes = tuple(f"{memory_id}: {why}" for memory_id, why in outcome.failed.items())
    counts = {"restored": len(outcome.restored), "failed": len(outcome.failed)}
    examined = len(ids[begin:end])
    return Step(examined, {"next": end}, finished=end >= len(ids), total=len(ids), counts=counts, notes=notes)


def restore(tenant_id: UUID, memory_ids: Sequence[UUID], rule: str = "use") -> RestoreOutcome:
    """Restore at most `ROWS` memories from cold storage, and record a use of each. Idempotent.

    Raises:
        StoreFailed: The store is unreachable or denies access; earlier attempts of this call remain committed.
        Misconfigured: The master key is missing or has changed.
    """
    pending = sorted(set(memory_ids))
    restored: set[UUID] = set()
    failed: dict[UUID, str] = {}
    for _ in range(_LOOKS):  # a concurrent compaction may have moved some records
        with database.tenant(tenant_id) as tx:
            locations = cold_segments.list_locations(tx, tenant_id, pending)
            opened = encryption_keys.open_record_keys(
                tx, tenant_id, [location.entry.key_id for location in locations.values()]
            )
        bodies, unavailable = fetch_contents(tenant_id, locations, opened)
        failpoints.trigger("restore.after_fetch")
        restored |= set(_write_back(tenant_id, bodies, locations, rule))
        with database.tenant(tenant_id) as tx:
            current = cold_segments.list_locations(
                tx, tenant_id, [wanted_id for wanted_id in pending if wanted_id not in restored]
            )
        pending = [wanted_id for wanted_id, location in current.items() if location != locations.get(wanted_id)]
        failed |= {memory_id: why for memory_id, why in unavailable.items() if memory_id not in pending}
        if not pending:
            break
    for memory_id, why in failed.items():
        log.error("cold_damaged", tenant=str(tenant_id), memory=str(memory_id), reason=why)
    metrics.count("cold_damaged", len(failed))
    failed |= dict.fromkeys(pending, MOVING)
    failed |= {wanted_id: NOT_COLD for wanted_id in memory_ids if wanted_id not in restored and wanted_id not in failed}
    metrics.count("cold_restored", len(restored))
    if restored:
        for task in (queues.INDEX, queues.EMBED_MEMORIES):
            queues.nudge(task)
    return RestoreOutcome(sorted(restored), failed)


def fetch_contents(
    tenant_id: UUID, places: Mapping[UUID, ColdLocation], opened: Mapping[UUID, bytes]
) -> tuple[dict[UUID, str], dict[UUID, str]]:
    """Return the decrypted contents by memory, and the reason for each memory whose content is unavailable."""
    bodies, failed = {}, {}
    by_path = defaultdict(list)
    for location in places.values():
        if location.entry.key_id in opened:
            by_path[location.path].append(location)
        else:
            failed[location.entry.memory_id] = KEY_GONE
    store = cold_store() if by_path else None
    for path, locations in by_path.items():
        assert store is not None  # noqa: S101 - for the type checker
        for group in _parts(locations):
            for location, content in _read(store, tenant_id, path, group, opened):
                if isinstance(content, DamagedSegment):
                    failed[location.entry.memory_id] = str(content)
                else:
                    bodies[location.entry.memory_id] = content
    return bodies, failed


def _parts(places: Sequence[ColdLocation]) -> Iterator[list[ColdLocation]]:
    """Group records of a segment that are close enough to be fetched in one range."""
    group: list[ColdLocation] = []
    for location in sorted(places, key=lambda each: each.entry.start):
        if group and location.entry.start - (group[-1].entry.start + group[-1].entry.length) > GAPS_MAX_BYTES:
            yield group
            group = []
        group.append(location)
    yield group


def _read(
    store: ColdStore, tenant_id: UUID, path: str, part: Sequence[ColdLocation], opened: Mapping[UUID, bytes]
) -> Iterator[tuple[ColdLocation, str | DamagedSegment]]:
    start = part[0].entry.start
    end = part[-1].entry.start + part[-1].entry.length
    try:
        data = store.get_range(path, start, end - start)
    except StoreFailed as error:
        if not error.lost:
            raise
        for location in part:
            yield location, DamagedSegment(f"its object is {error.failure}")
        return
    for location in part:
        try:
            yield (
                location,
                _content(tenant_id, location, cold_segment.record_body(data, location.entry, offset=start), opened),
            )
        except DamagedSegment as damage:
            yield location, damage


def _content(tenant_id: UUID, place: ColdLocation, body: bytes, opened: Mapping[UUID, bytes]) -> str:
    entry = place.entry
    associated_data = encryption.record_associated_data(tenant_id, entry.memory_id, entry.text_version)
    content = encryption.unseal(opened[entry.key_id], body, associated_data)
    try:
        msgspec.json.decode(content, type=_RecordBody)
        return content.decode()
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise DamagedSegment("malformed content") from None


def _write_back(
    tenant_id: UUID, bodies: Mapping[UUID, str], places: Mapping[UUID, ColdLocation], rule: str
) -> list[UUID]:
    """Restore the rows of memories whose records haven't moved since they were fetched. Return these memories."""
    if not bodies:
        return []
    with memory_write(tenant_id, "state", "restore.before_commit") as write:
        tx = write.tx
        locked = cold_segments.lock(tx, tenant_id, list(bodies), wait=True)
        states.lock(tx, tenant_id, locked)
        current = cold_segments.list_locations(tx, tenant_id, locked, locked=True)
        unmoved = [memory_id for memory_id, location in current.items() if location == places[memory_id]]
        if unmoved:
            write.measure(unmoved)
            cold_segments.refill_rows(tx, tenant_id, {memory_id: bodies[memory_id] for memory_id in unmoved})
            reactivate_cold(write, unmoved, rule)
            discard_records(tx, tenant_id, unmoved)
    failpoints.trigger("restore.after_commit")
    return unmoved


def reactivate_cold(write: MemoryWrite, memory_ids: Sequence[UUID], rule: str, actor: str | None = SYSTEM) -> None:
    """Reactivate cold memories whose texts are complete again, with their links, and record a use of each.

    The caller then calls `discard_records`.

    Args:
        write: A transaction that has locked these memories and called `write.measure` for them.
        memory_ids: Cold memories.
        rule: The reason, as in `MemoryWrite.restored`.
        actor: As in `MemoryWrite.restored`.
    """
    if not memory_ids:
        return
    tx, tenant_id = write.tx, write.tenant_id
    used, era, now = reactivation.record_use(tx, tenant_id, states.lock(tx, tenant_id, memory_ids))
    reactivation.record_reactivation(tx, tenant_id, used, "cold", era, now)
    cold_segments.restore_links(tx, tenant_id, used.ids)
    write.queue(work_queue.SEARCHED_BY, used.ids)
    write.restored(memory_ids, "cold", rule, actor)


def discard_records(tx: database.Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Remove these memories' records from the manifest and destroy their keys; the memories' rows aren't changed.

    Lock order: the word index before segments. Call this after every statement that locks the word index.
    """
    key_ids = cold_segments.delete_locations(tx, tenant_id, memory_ids)
    if key_ids:
        wrapped_keys.remove_records(tx, tenant_id, key_ids)
