"""Restore memories from cold storage: fetch records by byte range, verify them, and write their contents back.

Missing or damaged records are reported by memory and don't prevent other restores. A restored record leaves a gap in
its segment, and its key is destroyed.
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


# Records that are older than a field lack it.
_RecordBody: Final = precompile(
    msgspec.defstruct(
        "_RecordBody",
        [("text", str), ("links", list[dict[str, Any]])]
        + [(field.name, field.plain, field.default) for field in COLD if not field.is_required],
        frozen=True,
    )
)
"""The form of a record."""


@dataclass(frozen=True, slots=True)
class RestoreOutcome:
    """The result of a restore.

    Attributes:
        restored: In id order.
        failed: By memory, a fixed phrase with the reason.
    """

    restored: list[UUID]
    failed: dict[UUID, str]


def job_parameters(memory_ids: Sequence[UUID], rule: str = "use") -> dict[str, Any]:
    """Return the parameters of a job that restores these memories under the rule `use` or `hand`.

    Raises:
        ValueError: There are more than `IDS_MAX` memories.
    """
    if len(memory_ids) > IDS_MAX:
        raise ValueError(f"{len(memory_ids)} memories: a job restores at most {IDS_MAX}")
    told: dict[str, Any] = {"ids": [str(memory_id) for memory_id in memory_ids]}
    return told if rule == "use" else told | {"rule": rule}


def start(tenant_id: UUID, memory_ids: Sequence[UUID]) -> UUID:
    """Create a job that restores these memories, the first `IDS_MAX` of them, and return its id."""
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
    done = len(ids[begin:end])
    return Step(done, {"next": end}, finished=end >= len(ids), total=len(ids), counts=counts, notes=notes)


def restore(tenant_id: UUID, memory_ids: Sequence[UUID], rule: str = "use") -> RestoreOutcome:
    """Restore at most `ROWS` memories from cold storage, which counts as a use. Idempotent.

    Raises:
        StoreFailed: The store is unreachable or denies access; nothing has changed.
        Misconfigured: The master key is missing or has changed.
    """
    left = sorted(set(memory_ids))
    restored: set[UUID] = set()
    failed: dict[UUID, str] = {}
    for _ in range(_LOOKS):  # a concurrent compaction may have moved some records
        with database.tenant(tenant_id) as tx:
            places = cold_segments.list_locations(tx, tenant_id, left)
            opened = encryption_keys.open_record_keys(tx, tenant_id, [place.entry.key_id for place in places.values()])
        bodies, unavailable = fetch_contents(tenant_id, places, opened)
        failpoints.trigger("restore.after_fetch")
        restored |= set(_write_back(tenant_id, bodies, places, rule))
        with database.tenant(tenant_id) as tx:
            still = cold_segments.list_locations(tx, tenant_id, [each for each in left if each not in restored])
        left = [each for each, place in still.items() if place != places.get(each)]
        failed |= {each: why for each, why in unavailable.items() if each not in left}
        if not left:
            break
    for memory_id, why in failed.items():
        log.error("cold_damaged", tenant=str(tenant_id), memory=str(memory_id), reason=why)
    metrics.count("cold_damaged", len(failed))
    failed |= dict.fromkeys(left, MOVING)
    failed |= {each: NOT_COLD for each in memory_ids if each not in restored and each not in failed}
    metrics.count("cold_restored", len(restored))
    if restored:
        for task in (queues.INDEX, queues.EMBED_MEMORIES):
            queues.nudge(task)
    return RestoreOutcome(sorted(restored), failed)


def fetch_contents(
    tenant_id: UUID, places: Mapping[UUID, ColdLocation], opened: Mapping[UUID, bytes]
) -> tuple[dict[UUID, str], dict[UUID, str]]:
    """Return the contents of records by memory, and the reason for each record whose contents are unavailable."""
    bodies, failed = {}, {}
    by_path = defaultdict(list)
    for place in places.values():
        if place.entry.key_id in opened:
            by_path[place.path].append(place)
        else:
            failed[place.entry.memory_id] = KEY_GONE
    store = cold_store() if by_path else None
    for path, together in by_path.items():
        assert store is not None  # noqa: S101 - for the type checker
        for part in _parts(together):
            for place, content in _read(store, tenant_id, path, part, opened):
                if isinstance(content, DamagedSegment):
                    failed[place.entry.memory_id] = str(content)
                else:
                    bodies[place.entry.memory_id] = content
    return bodies, failed


def _parts(places: Sequence[ColdLocation]) -> Iterator[list[ColdLocation]]:
    """Yield groups of records in a segment that are close enough to be fetched together."""
    part: list[ColdLocation] = []
    for place in sorted(places, key=lambda each: each.entry.start):
        if part and place.entry.start - (part[-1].entry.start + part[-1].entry.length) > GAPS_MAX_BYTES:
            yield part
            part = []
        part.append(place)
    yield part


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
        for place in part:
            yield place, DamagedSegment(f"its object is {error.failure}")
        return
    for place in part:
        try:
            yield place, _content(tenant_id, place, cold_segment.record_body(data, place.entry, offset=start), opened)
        except DamagedSegment as damaged:
            yield place, damaged


def _content(tenant_id: UUID, place: ColdLocation, body: bytes, opened: Mapping[UUID, bytes]) -> str:
    entry = place.entry
    bound = encryption.record_associated_data(tenant_id, entry.memory_id, entry.text_version)
    content = encryption.unseal(opened[entry.key_id], body, bound)
    try:
        msgspec.json.decode(content, type=_RecordBody)
        return content.decode()
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise DamagedSegment("form of its content") from None


def _write_back(
    tenant_id: UUID, bodies: Mapping[UUID, str], places: Mapping[UUID, ColdLocation], rule: str
) -> list[UUID]:
    """Fill the rows of memories whose records haven't moved since they were fetched. Return those memories."""
    if not bodies:
        return []
    with memory_write(tenant_id, "state", "restore.before_commit") as write:
        tx = write.tx
        locked = cold_segments.lock(tx, tenant_id, list(bodies), wait=True)
        states.lock(tx, tenant_id, locked)
        now = cold_segments.list_locations(tx, tenant_id, locked, locked=True)
        back = [memory_id for memory_id, place in now.items() if place == places[memory_id]]
        if back:
            write.measure(back)
            cold_segments.refill_rows(tx, tenant_id, {memory_id: bodies[memory_id] for memory_id in back})
            reactivate_cold(write, back, rule)
            discard_records(tx, tenant_id, back)
    failpoints.trigger("restore.after_commit")
    return back


def reactivate_cold(write: MemoryWrite, memory_ids: Sequence[UUID], rule: str, actor: str | None = SYSTEM) -> None:
    """Make cold memories with complete rows active again, and count it as a use; the caller discards their records.

    Args:
        write: A transaction that has locked the rows of the memories and measures them.
        memory_ids: Cold memories.
        rule: The reason, as in `MemoryWrite.restored`.
        actor: As in `MemoryWrite.restored`.
    """
    if not memory_ids:
        return
    tx, tenant_id = write.tx, write.tenant_id
    used, era, now = reactivation.record_use(tx, tenant_id, states.lock(tx, tenant_id, memory_ids))
    reactivation.record_reactivation(tx, tenant_id, used, "cold", era, now)
    write.queue(work_queue.SEARCHED_BY, used.ids)
    write.restored(memory_ids, "cold", rule, actor)


def discard_records(tx: database.Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Remove these memories' records from the manifest and destroy their keys; the rows aren't changed.

    Segments are locked after words, so call this after anything that locks words.
    """
    key_ids = cold_segments.delete_locations(tx, tenant_id, memory_ids)
    if key_ids:
        wrapped_keys.remove_records(tx, tenant_id, key_ids)
