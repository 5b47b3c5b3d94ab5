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
from app.clients.cold_store import StoreFailed, cold_store
from app.domain.jobs import Job, Step
from app.domain.tiers import segment
from app.domain.tiers.segment import Damaged, Sealed, Segment
from app.services.tiers import cold as moving
from app.services.tiers.cold import SegmentLost
from app.store.core import database
from app.store.privacy import deadlines
from app.store.tiers import cold
from app.store.tiers.cold import Listed, Place

KIND: Final = "compact"
LIVE_SHARE: Final = 0.5
"""A segment is rewritten if the share of its live records is below this."""
SMALL_RECORDS: Final = segment.RECORDS // 2
SMALL_SEGMENTS: Final = 8
"""Number of segments with fewer live records than `SMALL_RECORDS` from which they are merged."""
TOGETHER_BYTES: Final = 32 << 20
ORPHAN_AGE: Final = timedelta(days=1)
"""Minimum age of an object missing from the manifest. A segment is recorded before it is written, but clocks differ."""
NAMED_MAX: Final = 100
STEP_SECONDS: Final = 2.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of reconciling the manifest with the store.

    Attributes:
        orphans: Number of objects deleted because no segment refers to them.
        lost: Unrestorable memories with the reason: their segment's object is missing or has another size.
    """

    orphans: int
    lost: dict[UUID, str]


def step(job: Job) -> Step:
    """Run maintenance for `STEP_SECONDS`."""
    return carry_on(job.tenant_id, job.state, time.monotonic() + STEP_SECONDS)


def carry_on(tenant_id: UUID, state: dict[str, Any], until: float) -> Step:
    """Continue the maintenance.

    Args:
        state: State returned by the previous step; empty at first.
        until: Deadline by the monotonic clock; at least one segment is written.

    Raises:
        StoreFailed: The store is unreachable, full, or denies access.
    """
    if not state:
        return Step(0, {"phase": "compact"}, finished=False, counts={"dropped": moving.clean(tenant_id)})
    counts = Counter[str]()
    notes: dict[str, None] = {}
    spoilt = {UUID(each) for each in state.get("spoilt", [])}
    while state["phase"] == "compact":
        merged, damaged = compact(tenant_id, spoilt)
        spoilt |= set(damaged)
        notes |= dict.fromkeys(f"segment {segment_id}: {why}" for segment_id, why in damaged.items())
        counts["compacted"] += merged
        if not merged and not damaged:
            break
        if time.monotonic() >= until:
            left_off = {"phase": "compact", "spoilt": [str(each) for each in spoilt]}
            return Step(merged, left_off, finished=False, counts=counts, notes=tuple(notes))
    checked = check(tenant_id)
    named = [f"{memory_id}: {why}" for memory_id, why in list(checked.lost.items())[:NAMED_MAX]]
    more = [f"and {len(checked.lost) - NAMED_MAX} more"] if len(checked.lost) > NAMED_MAX else []
    counts.update(orphans=checked.orphans, lost=len(checked.lost))
    late = _check_segment_rewrites(tenant_id)
    return Step(0, state, finished=True, counts=dict(counts), notes=(*notes, *named, *more, *late))


def compact(tenant_id: UUID, spoilt: set[UUID] | frozenset[UUID] = frozenset()) -> tuple[int, dict[UUID, str]]:
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
        chosen = _chosen([each for each in cold.listed(tx, tenant_id) if each.segment_id not in spoilt], marked)
        places = cold.places_in(tx, tenant_id, [each.segment_id for each in chosen], segment.RECORDS_MAX)
    if not chosen:
        return 0, {}
    records, damaged = _records(tenant_id, chosen, places)
    well = [each for each in chosen if each.segment_id not in damaged]
    if not well:
        return 0, damaged
    moved = {each.memory_id: places[each.memory_id] for each in records}
    if records:
        new_id, made = uuid4(), segment.encode(tenant_id, records)
        moving.put(cold_store(), tenant_id, new_id, made)
        _record_move(tenant_id, new_id, made, moved)
    moving.delete(tenant_id, _drop(tenant_id))
    return len(well), damaged


def _chosen(listed: Sequence[Listed], marked: Sequence[UUID] = ()) -> list[Listed]:
    """Choose segments to merge, as many as fit into one.

    Segments that an erasure has touched come first, in the given order.
    """
    written = [each for each in listed if each.status == "written"]
    order = {segment_id: place for place, segment_id in enumerate(marked)}
    gaping = [each for each in written if each.live < LIVE_SHARE * each.records or each.segment_id in order]
    gaping.sort(key=lambda each: order.get(each.segment_id, len(order)))
    small = [each for each in written if each not in gaping and each.live < SMALL_RECORDS]
    chosen: list[Listed] = []
    records, size = 0, 0
    for each in [*gaping, *(small if len(small) >= SMALL_SEGMENTS else [])]:
        records, size = records + each.live, size + each.size
        if chosen and (records > segment.RECORDS or size > TOGETHER_BYTES):
            break
        chosen.append(each)
    return chosen


def _records(
    tenant_id: UUID, chosen: Sequence[Listed], places: Mapping[UUID, Place]
) -> tuple[list[Sealed], dict[UUID, str]]:
    """Return the live, encrypted records of segments, and the reason for each segment that is damaged."""
    store = cold_store()
    found: list[Sealed] = []
    damaged = {}
    for each in chosen:
        entries = [place.entry for place in places.values() if place.segment_id == each.segment_id]
        try:
            data = store.get(each.path)
            segment.decode(tenant_id, data)
            own = [(entry, segment.body(data, entry)) for entry in entries]
        except Damaged as error:
            damaged[each.segment_id] = str(error)
        except StoreFailed as error:
            if not error.lost:
                raise
            damaged[each.segment_id] = f"its object is {error.failure}"
        else:
            found += [Sealed(entry.memory_id, entry.key_id, entry.text_version, body) for entry, body in own]
    for segment_id, why in damaged.items():
        log.error("cold_segment_damaged", tenant=str(tenant_id), segment=str(segment_id), reason=why)
    return found, damaged


def _record_move(tenant_id: UUID, new_id: UUID, made: Segment, moved: Mapping[UUID, Place]) -> None:
    """Point memories whose records haven't moved to the new segment."""
    with database.tenant(tenant_id) as tx:
        now = cold.places(tx, tenant_id, list(moved), locked=True)
        still = [entry for entry in made.entries if now.get(entry.memory_id) == moved[entry.memory_id]]
        cold.take_out(tx, tenant_id, [entry.memory_id for entry in still])
        if not cold.finish(tx, tenant_id, new_id, len(still)):
            raise SegmentLost
        cold.place(tx, tenant_id, new_id, still)
        failpoints.reach("compact.before_commit")
    failpoints.reach("compact.after_commit")


def _drop(tenant_id: UUID) -> list[tuple[UUID, str]]:
    with database.tenant(tenant_id) as tx:
        return cold.dropped(tx, tenant_id)


def check(tenant_id: UUID) -> Checked:
    """Reconcile the manifest with the store: delete unreferenced objects, and report memories whose object is wrong.

    Raises:
        StoreFailed: The store is unreachable or denies access.
    """
    store = cold_store()
    folder = moving.path_of(tenant_id, UUID(int=0)).rpartition("/")[0]
    there = {found.path: found for found in store.under(folder)}
    with database.tenant(tenant_id) as tx:
        listed = cold.listed(tx, tenant_id)  # after the store: a segment is recorded before its object is written
        now = database.now(tx)
    known = {each.path for each in listed}
    orphans = [path for path, found in there.items() if path not in known and now - found.modified_at > ORPHAN_AGE]
    for path in orphans:
        store.delete(path)
    wrong = {each.segment_id: _wrong(each, there[each.path].size if each.path in there else None) for each in listed}
    lost = _memories_of(tenant_id, {segment_id: why for segment_id, why in wrong.items() if why is not None})
    for memory_id, why in lost.items():
        log.error("cold_damaged", tenant=str(tenant_id), memory=str(memory_id), reason=why)
    metrics.count("cold_orphans", len(orphans))
    metrics.count("cold_damaged", len(lost))
    return Checked(len(orphans), lost)


def _wrong(each: Listed, size: int | None) -> str | None:
    if each.status != "written" or size == each.size:
        return None
    if size is None and cold_store().size(each.path) == each.size:
        return None  # written while the objects were being listed
    return "its object is missing" if size is None else "its object is of another size"


def _memories_of(tenant_id: UUID, wrong: Mapping[UUID, str]) -> dict[UUID, str]:
    if not wrong:
        return {}
    with database.tenant(tenant_id) as tx:
        places = cold.places_in(tx, tenant_id, list(wrong), segment.RECORDS_MAX * len(wrong))
    return {memory_id: wrong[place.segment_id] for memory_id, place in places.items()}


def _check_segment_rewrites(tenant_id: UUID) -> tuple[str, ...]:
    """Record which erasures have had all their segments rewritten, and log an error if some are overdue.

    Returns:
        A line for the job's log if segments are overdue.
    """
    with database.tenant(tenant_id) as tx:
        now = database.now(tx)
        deadlines.note_rewritten(tx, tenant_id, now)
        late = deadlines.late(tx, tenant_id, now)
    if late.since is None:
        return ()
    log.error("segments_late", tenant=str(tenant_id), erasures=late.erasures, since=late.since.isoformat())
    return (f"segments of {late.erasures} erasures should be rewritten by now, the first since {late.since:%Y-%m-%d}",)
