"""Maintain cold storage: merge small or mostly empty segments, and delete unreferenced objects.

Records are copied without being decrypted. The manifest is also reconciled with the store in both directions: objects
without a segment are deleted, and the memories of segments without an object are reported.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import structlog

from app import failpoints, metrics
from app.clients.object_store import StoreFailed, cold_store
from app.domain.jobs import Job, Step
from app.domain.tiers import cold_segment
from app.domain.tiers.cold_segment import DamagedSegment, SealedRecord, Segment
from app.services.tiers import cold_storage
from app.services.tiers.cold_storage import SegmentLost
from app.store.core import database
from app.store.privacy import deadlines
from app.store.tiers import cold_segments
from app.store.tiers.cold_segments import ColdLocation, SegmentListing

KIND: Final = "compact"
LIVE_SHARE: Final = 0.5
"""A segment is rewritten if the share of its live records is below this."""
SMALL_RECORDS: Final = cold_segment.RECORDS // 2
SMALL_SEGMENTS: Final = 8
"""Minimum number of small segments (fewer than `SMALL_RECORDS` live records) for merging them."""
TOGETHER_BYTES: Final = 32 << 20
ORPHAN_AGE: Final = timedelta(days=1)
"""Minimum age of an orphaned object to be deleted. Segments are recorded before they are written, but clocks differ."""
NAMED_MAX: Final = 100
STEP_SECONDS: Final = 2.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReconciliationResult:
    """The result of reconciling the manifest with the store.

    Attributes:
        orphans: Number of objects deleted because no segment refers to them.
        lost: Memories that can't be restored, with the reason: their segment's object is missing or has a wrong size.
    """

    orphans: int
    lost: dict[UUID, str]


def run_job_slice(job: Job) -> Step:
    """Run maintenance for `STEP_SECONDS`."""
    return run_slice(job.tenant_id, job.state, time.monotonic() + STEP_SECONDS)


def run_slice(tenant_id: UUID, state: dict[str, Any], until: float) -> Step:
    """Continue the job: clean up and merge segments, then reconcile the manifest with the store.

    Args:
        state: State returned by the previous step; empty at first.
        until: Deadline by the monotonic clock; at least one merge is attempted.

    Raises:
        StoreFailed: The store is unreachable, full, or denies access.
    """
    if not state:
        return Step(0, {"phase": "compact"}, finished=False, counts={"dropped": cold_storage.clean_segments(tenant_id)})
    counts = Counter[str]()
    notes: dict[str, None] = {}
    damaged_ids = {UUID(damaged_id) for damaged_id in state.get("spoilt", [])}
    while state["phase"] == "compact":
        merged, damaged = compact_segments(tenant_id, damaged_ids)
        damaged_ids |= set(damaged)
        notes |= dict.fromkeys(f"segment {segment_id}: {why}" for segment_id, why in damaged.items())
        counts["compacted"] += merged
        if not merged and not damaged:
            break
        if time.monotonic() >= until:
            next_state = {"phase": "compact", "spoilt": [str(damaged_id) for damaged_id in damaged_ids]}
            return Step(merged, next_state, finished=False, counts=counts, notes=tuple(notes))
    reconciled = reconcile_manifest(tenant_id)
    lost_notes = [f"{memory_id}: {why}" for memory_id, why in list(reconciled.lost.items())[:NAMED_MAX]]
    omitted_note = [f"and {len(reconciled.lost) - NAMED_MAX} more"] if len(reconciled.lost) > NAMED_MAX else []
    counts.update(orphans=reconciled.orphans, lost=len(reconciled.lost))
    overdue_notes = _check_segment_rewrites(tenant_id)
    return Step(
        0, state, finished=True, counts=dict(counts), notes=(*notes, *lost_notes, *omitted_note, *overdue_notes)
    )


def compact_segments(tenant_id: UUID, spoilt: set[UUID] | frozenset[UUID] = frozenset()) -> tuple[int, dict[UUID, str]]:
    """Merge the records of some segments into a new segment. Call again until it returns 0 and no damaged segments.

    Damaged segments aren't changed.

    Args:
        spoilt: Segments to skip.

    Returns:
        The number of segments replaced, and the reason for each segment that couldn't be.

    Raises:
        StoreFailed: The store is unreachable, full, or denies access. No record has moved, or only the deletion of the
            replaced objects is outstanding, which the next run repeats.
    """
    with database.tenant(tenant_id) as tx:
        marked_ids = deadlines.to_rewrite(tx, tenant_id)
        chosen = _choose_segments(
            [item for item in cold_segments.list_segments(tx, tenant_id) if item.segment_id not in spoilt], marked_ids
        )
        locations = cold_segments.list_locations_in(
            tx, tenant_id, [item.segment_id for item in chosen], cold_segment.RECORDS_MAX
        )
    if not chosen:
        return 0, {}
    records, damaged = _records(tenant_id, chosen, locations)
    replaced = [item for item in chosen if item.segment_id not in damaged]
    if not replaced:
        return 0, damaged
    old_locations = {item.memory_id: locations[item.memory_id] for item in records}
    if records:
        new_id, segment = uuid4(), cold_segment.encode(tenant_id, records)
        cold_storage.write_segment(cold_store(), tenant_id, new_id, segment)
        _record_move(tenant_id, new_id, segment, old_locations)
    cold_storage.delete(tenant_id, _drop_segments(tenant_id))
    return len(replaced), damaged


def _choose_segments(listed: Sequence[SegmentListing], marked: Sequence[UUID] = ()) -> list[SegmentListing]:
    """Choose segments to merge, as many as fit into one.

    Segments that an erasure requires to be rewritten (`marked`) are chosen first, in their order.
    """
    written = [listing for listing in listed if listing.status == "written"]
    marked_order = {segment_id: position for position, segment_id in enumerate(marked)}
    to_rewrite = [
        listing
        for listing in written
        if listing.live < LIVE_SHARE * listing.records or listing.segment_id in marked_order
    ]
    to_rewrite.sort(key=lambda listing: marked_order.get(listing.segment_id, len(marked_order)))
    small = [listing for listing in written if listing not in to_rewrite and listing.live < SMALL_RECORDS]
    chosen: list[SegmentListing] = []
    records, size = 0, 0
    for listing in [*to_rewrite, *(small if len(small) >= SMALL_SEGMENTS else [])]:
        records, size = records + listing.live, size + listing.size
        if chosen and (records > cold_segment.RECORDS or size > TOGETHER_BYTES):
            break
        chosen.append(listing)
    return chosen


def _records(
    tenant_id: UUID, chosen: Sequence[SegmentListing], places: Mapping[UUID, ColdLocation]
) -> tuple[list[SealedRecord], dict[UUID, str]]:
    """Return the live, encrypted records of segments, and the reason for each segment that is damaged."""
    store = cold_store()
    sealed: list[SealedRecord] = []
    damaged = {}
    for listing in chosen:
        entries = [place.entry for place in places.values() if place.segment_id == listing.segment_id]
        try:
            data = store.get(listing.path)
            cold_segment.decode(tenant_id, data)
            bodies = [(entry, cold_segment.record_body(data, entry)) for entry in entries]
        except DamagedSegment as error:
            damaged[listing.segment_id] = str(error)
        except StoreFailed as error:
            if not error.lost:
                raise
            damaged[listing.segment_id] = f"its object is {error.failure}"
        else:
            sealed += [SealedRecord(entry.memory_id, entry.key_id, entry.text_version, body) for entry, body in bodies]
    for segment_id, why in damaged.items():
        log.error("cold_segment_damaged", tenant=str(tenant_id), segment=str(segment_id), reason=why)
    return sealed, damaged


def _record_move(tenant_id: UUID, new_id: UUID, made: Segment, moved: Mapping[UUID, ColdLocation]) -> None:
    """Point memories to their records in the new segment, unless their records have moved in the meantime."""
    with database.tenant(tenant_id) as tx:
        current = cold_segments.list_locations(tx, tenant_id, list(moved), locked=True)
        unmoved = [entry for entry in made.entries if current.get(entry.memory_id) == moved[entry.memory_id]]
        cold_segments.release_records(tx, tenant_id, [current[entry.memory_id].segment_id for entry in unmoved])
        if not cold_segments.finish_segment(tx, tenant_id, new_id, len(unmoved)):
            raise SegmentLost
        cold_segments.upsert_locations(tx, tenant_id, new_id, unmoved)
        failpoints.trigger("compact.before_commit")
    failpoints.trigger("compact.after_commit")


_drop_segments = database.in_tenant(cold_segments.list_dropped)


def reconcile_manifest(tenant_id: UUID) -> ReconciliationResult:
    """Delete objects that the manifest doesn't list, and report memories whose object is missing or has a wrong size.

    Objects younger than `ORPHAN_AGE` aren't deleted.

    Raises:
        StoreFailed: The store is unreachable or denies access.
    """
    store = cold_store()
    folder = cold_storage.segment_path(tenant_id, UUID(int=0)).rpartition("/")[0]
    objects = {stored_object.path: stored_object for stored_object in store.list_folder(folder)}
    with database.tenant(tenant_id) as tx:
        listed = cold_segments.list_segments(
            tx, tenant_id
        )  # after listing the objects, because a segment is recorded before its object is written
        now = database.now(tx)
    listed_paths = {listing.path for listing in listed}
    orphans = [
        path
        for path, stored_object in objects.items()
        if path not in listed_paths and now - stored_object.modified_at > ORPHAN_AGE
    ]
    for path in orphans:
        store.delete(path)
    mismatches = {
        listing.segment_id: _describe_mismatch(listing, objects[listing.path].size if listing.path in objects else None)
        for listing in listed
    }
    lost = _memories_of(tenant_id, {segment_id: why for segment_id, why in mismatches.items() if why is not None})
    for memory_id, why in lost.items():
        log.error("cold_damaged", tenant=str(tenant_id), memory=str(memory_id), reason=why)
    metrics.count("cold_orphans", len(orphans))
    metrics.count("cold_damaged", len(lost))
    return ReconciliationResult(len(orphans), lost)


def _describe_mismatch(each: SegmentListing, size: int | None) -> str | None:
    if each.status != "written" or size == each.size:
        return None
    if size is None and cold_store().size(each.path) == each.size:
        return None  # written while the objects were being listed
    return "its object is missing" if size is None else "its object is of another size"


def _memories_of(tenant_id: UUID, wrong: Mapping[UUID, str]) -> dict[UUID, str]:
    if not wrong:
        return {}
    with database.tenant(tenant_id) as tx:
        locations = cold_segments.list_locations_in(tx, tenant_id, list(wrong), cold_segment.RECORDS_MAX * len(wrong))
    return {memory_id: wrong[location.segment_id] for memory_id, location in locations.items()}


def _check_segment_rewrites(tenant_id: UUID) -> tuple[str, ...]:
    """Record which erasures have had all their segments rewritten, and log an error if some are overdue.

    Returns:
        A note for the job if segments are overdue, otherwise an empty tuple.
    """
    with database.tenant(tenant_id) as tx:
        now = database.now(tx)
        deadlines.mark_rewritten(tx, tenant_id, now)
        overdue = deadlines.read_late(tx, tenant_id, now)
    if overdue.since is None:
        return ()
    log.error("segments_late", tenant=str(tenant_id), erasures=overdue.erasures, since=overdue.since.isoformat())
    return (
        f"segments of {overdue.erasures} erasures should be rewritten by now, the first since {overdue.since:%Y-%m-%d}",
    )
