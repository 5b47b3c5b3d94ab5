"""Maintain cold storage: merge small or mostly empty segments, and delete unreferenced objects.

Records are copied without being decrypted. The manifest is also reconciled with the store in both directions: objects
without a segment are deleted, and segments without an object are reported by memory.
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
"""Number of segments with fewer live records than `SMALL_RECORDS` from which they are merged."""
TOGETHER_BYTES: Final = 32 << 20
ORPHAN_AGE: Final = timedelta(days=1)
"""Minimum age of an object missing from the manifest. A segment is recorded before it is written, but clocks differ."""
NAMED_MAX: Final = 100
STEP_SECONDS: Final = 2.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReconciliationResult:
    """The result of reconciling the manifest with the store.

    Attributes:
        orphans: Number of objects deleted because no segment refers to them.
        lost: Unrestorable memories with the reason: their segment's object is missing or has another size.
    """

    orphans: int
    lost: dict[UUID, str]


def run_job_slice(job: Job) -> Step:
    """Run maintenance for `STEP_SECONDS`."""
    return run_slice(job.tenant_id, job.state, time.monotonic() + STEP_SECONDS)


def run_slice(tenant_id: UUID, state: dict[str, Any], until: float) -> Step:
    """Continue the maintenance.

    Args:
        state: State returned by the previous step; empty at first.
        until: Deadline by the monotonic clock; at least one segment is written.

    Raises:
        StoreFailed: The store is unreachable, full, or denies access.
    """
    if not state:
        return Step(0, {"phase": "compact"}, finished=False, counts={"dropped": cold_storage.clean_segments(tenant_id)})
    counts = Counter[str]()
    notes: dict[str, None] = {}
    spoilt = {UUID(each) for each in state.get("spoilt", [])}
    while state["phase"] == "compact":
        merged, damaged = compact_segments(tenant_id, spoilt)
        spoilt |= set(damaged)
        notes |= dict.fromkeys(f"segment {segment_id}: {why}" for segment_id, why in damaged.items())
        counts["compacted"] += merged
        if not merged and not damaged:
            break
        if time.monotonic() >= until:
            left_off = {"phase": "compact", "spoilt": [str(each) for each in spoilt]}
            return Step(merged, left_off, finished=False, counts=counts, notes=tuple(notes))
    checked = reconcile_manifest(tenant_id)
    named = [f"{memory_id}: {why}" for memory_id, why in list(checked.lost.items())[:NAMED_MAX]]
    more = [f"and {len(checked.lost) - NAMED_MAX} more"] if len(checked.lost) > NAMED_MAX else []
    counts.update(orphans=checked.orphans, lost=len(checked.lost))
    late = _check_segment_rewrites(tenant_id)
    return Step(0, state, finished=True, counts=dict(counts), notes=(*notes, *named, *more, *late))


def compact_segments(tenant_id: UUID, spoilt: set[UUID] | frozenset[UUID] = frozenset()) -> tuple[int, dict[UUID, str]]:
    """Merge the records of some segments into a new one. Call again until it returns 0 and no damaged segments.

    Segments that contain damage aren't changed.

    Args:
        spoilt: Segments to skip.

    Returns:
        The number of segments replaced, and the reason for each segment that couldn't be.

    Raises:
        StoreFailed: The store is unreachable, full, or denies access; nothing has changed.
    """
    with database.tenant(tenant_id) as tx:
        marked = deadlines.to_rewrite(tx, tenant_id)
        chosen = _choose_segments(
            [each for each in cold_segments.list_segments(tx, tenant_id) if each.segment_id not in spoilt], marked
        )
        places = cold_segments.list_locations_in(
            tx, tenant_id, [each.segment_id for each in chosen], cold_segment.RECORDS_MAX
        )
    if not chosen:
        return 0, {}
    records, damaged = _records(tenant_id, chosen, places)
    well = [each for each in chosen if each.segment_id not in damaged]
    if not well:
        return 0, damaged
    moved = {each.memory_id: places[each.memory_id] for each in records}
    if records:
        new_id, made = uuid4(), cold_segment.encode(tenant_id, records)
        cold_storage.write_segment(cold_store(), tenant_id, new_id, made)
        _record_move(tenant_id, new_id, made, moved)
    cold_storage.delete(tenant_id, _drop_segments(tenant_id))
    return len(well), damaged


def _choose_segments(listed: Sequence[SegmentListing], marked: Sequence[UUID] = ()) -> list[SegmentListing]:
    """Choose segments to merge, as many as fit into one.

    Segments that an erasure has touched come first, in the given order.
    """
    written = [each for each in listed if each.status == "written"]
    order = {segment_id: place for place, segment_id in enumerate(marked)}
    gaping = [each for each in written if each.live < LIVE_SHARE * each.records or each.segment_id in order]
    gaping.sort(key=lambda each: order.get(each.segment_id, len(order)))
    small = [each for each in written if each not in gaping and each.live < SMALL_RECORDS]
    chosen: list[SegmentListing] = []
    records, size = 0, 0
    for each in [*gaping, *(small if len(small) >= SMALL_SEGMENTS else [])]:
        records, size = records + each.live, size + each.size
        if chosen and (records > cold_segment.RECORDS or size > TOGETHER_BYTES):
            break
        chosen.append(each)
    return chosen


def _records(
    tenant_id: UUID, chosen: Sequence[SegmentListing], places: Mapping[UUID, ColdLocation]
) -> tuple[list[SealedRecord], dict[UUID, str]]:
    """Return the live, encrypted records of segments, and the reason for each segment that is damaged."""
    store = cold_store()
    found: list[SealedRecord] = []
    damaged = {}
    for each in chosen:
        entries = [place.entry for place in places.values() if place.segment_id == each.segment_id]
        try:
            data = store.get(each.path)
            cold_segment.decode(tenant_id, data)
            own = [(entry, cold_segment.record_body(data, entry)) for entry in entries]
        except DamagedSegment as error:
            damaged[each.segment_id] = str(error)
        except StoreFailed as error:
            if not error.lost:
                raise
            damaged[each.segment_id] = f"its object is {error.failure}"
        else:
            found += [SealedRecord(entry.memory_id, entry.key_id, entry.text_version, body) for entry, body in own]
    for segment_id, why in damaged.items():
        log.error("cold_segment_damaged", tenant=str(tenant_id), segment=str(segment_id), reason=why)
    return found, damaged


def _record_move(tenant_id: UUID, new_id: UUID, made: Segment, moved: Mapping[UUID, ColdLocation]) -> None:
    """Point memories whose records haven't moved to the new segment."""
    with database.tenant(tenant_id) as tx:
        now = cold_segments.list_locations(tx, tenant_id, list(moved), locked=True)
        still = [entry for entry in made.entries if now.get(entry.memory_id) == moved[entry.memory_id]]
        cold_segments.delete_locations(tx, tenant_id, [entry.memory_id for entry in still])
        if not cold_segments.finish_segment(tx, tenant_id, new_id, len(still)):
            raise SegmentLost
        cold_segments.upsert_locations(tx, tenant_id, new_id, still)
        failpoints.trigger("compact.before_commit")
    failpoints.trigger("compact.after_commit")


_drop_segments = database.in_tenant(cold_segments.list_dropped)


def reconcile_manifest(tenant_id: UUID) -> ReconciliationResult:
    """Reconcile the manifest with the store: delete unreferenced objects, and report memories whose object is wrong.

    Raises:
        StoreFailed: The store is unreachable or denies access.
    """
    store = cold_store()
    folder = cold_storage.segment_path(tenant_id, UUID(int=0)).rpartition("/")[0]
    there = {found.path: found for found in store.list_folder(folder)}
    with database.tenant(tenant_id) as tx:
        listed = cold_segments.list_segments(
            tx, tenant_id
        )  # after the store: a segment is recorded before its object is written
        now = database.now(tx)
    known = {each.path for each in listed}
    orphans = [path for path, found in there.items() if path not in known and now - found.modified_at > ORPHAN_AGE]
    for path in orphans:
        store.delete(path)
    wrong = {
        each.segment_id: _describe_mismatch(each, there[each.path].size if each.path in there else None)
        for each in listed
    }
    lost = _memories_of(tenant_id, {segment_id: why for segment_id, why in wrong.items() if why is not None})
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
        places = cold_segments.list_locations_in(tx, tenant_id, list(wrong), cold_segment.RECORDS_MAX * len(wrong))
    return {memory_id: wrong[place.segment_id] for memory_id, place in places.items()}


def _check_segment_rewrites(tenant_id: UUID) -> tuple[str, ...]:
    """Record which erasures have had all their segments rewritten, and log an error if some are overdue.

    Returns:
        A line for the job's log if segments are overdue.
    """
    with database.tenant(tenant_id) as tx:
        now = database.now(tx)
        deadlines.mark_rewritten(tx, tenant_id, now)
        late = deadlines.read_late(tx, tenant_id, now)
    if late.since is None:
        return ()
    log.error("segments_late", tenant=str(tenant_id), erasures=late.erasures, since=late.since.isoformat())
    return (f"segments of {late.erasures} erasures should be rewritten by now, the first since {late.since:%Y-%m-%d}",)
