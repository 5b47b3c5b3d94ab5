"""Move memories to cold storage: many per object, written and verified before the database rows are shortened.

First, memories are chosen and read. Then their segment is encrypted and written outside any transaction. Finally, each
memory is checked again: a memory that was changed, used or placed under a legal hold in the meantime isn't moved, and
no row refers to its record in the segment. A crash leaves either the old or the new state, and possibly an unreferenced
segment, which the next run drops.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID, uuid4

import numpy as np
import structlog

from app import failpoints, metrics
from app.clients.object_store import ColdStore, FailureKind, StoreFailed, cold_store
from app.domain.jobs import Job, Step
from app.domain.text.excerpt import abridge
from app.domain.tiers import cold_segment, encryption
from app.domain.tiers.cold_segment import SealedRecord, Segment
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.domain.tiers.tier_decision import RULES, Decision, TierFacts
from app.services.security import encryption_keys
from app.services.security.encryption_keys import OwnerKeys
from app.services.storage.memory_write import memory_write
from app.services.strength import rebase
from app.services.tiers import dry_run, sweep, transitions
from app.services.tiers.dry_run import DryRunKind, Tiers
from app.store.core import database
from app.store.enrichment import word_index
from app.store.strength.states import StoredStates
from app.store.tiers import cold_segments, wrapped_keys
from app.store.tiers.cold_segments import ColdContent
from app.store.tiers.wrapped_keys import WrappedKey

KIND: Final = "cold"
SOURCE: Final = "archived"
SEGMENT_CHARACTERS: Final = 8 << 20
"""Maximum length of a segment's contents before compression; further memories are written to the next segment."""
STEP_SECONDS: Final = 2.0
_DECAY: Final = RULES.index("decay")

log = structlog.get_logger(__name__)


class SegmentLost(Exception):
    """The segment being written was dropped by another process that presumed its writer dead."""


@dataclass(frozen=True, slots=True)
class _Written:
    """An encrypted segment whose memories haven't been moved to it yet.

    Attributes:
        contents: The contents that were encrypted, by memory.
        keys: Wrapped keys of the records.
        owners: Wrapped keys at the time of encryption, by owner (a subject, or the tenant for memories without one).
    """

    segment_id: UUID
    segment: Segment
    contents: Mapping[UUID, ColdContent]
    keys: Mapping[UUID, WrappedKey]
    owners: Mapping[bytes, bytes]


def move_segment(tenant_id: UUID, as_of: datetime | None = None, limit: int = cold_segment.RECORDS) -> tuple[int, int]:
    """Move archived memories to one new segment of cold storage, if decay has marked them for a lower tier.

    Call again until no memory is moved.

    Args:
        as_of: Reference time; None for now.

    Returns:
        The number of memories chosen, and the number of memories moved.

    Raises:
        StoreFailed: The store is unreachable, full, or denies access; no memory has changed.
        Misconfigured: The master key is missing or has changed.
    """
    store = cold_store()
    with memory_write(tenant_id, "tier") as write:
        due = transitions.claim_due(write, SOURCE, limit, as_of)
        # Memories that have expired or are to be erased must not be copied to cold storage before their deletion.
        fading = due.only(np.flatnonzero(due.decision.rules == _DECAY))
        contents = _take_fitting(cold_segments.read_contents(write.tx, tenant_id, fading.held.ids))
    if not contents:
        return 0, 0
    written = _sealed(tenant_id, contents)
    write_segment(store, tenant_id, written.segment_id, written.segment)
    return len(contents), _record_move(tenant_id, written, as_of)


def _take_fitting(contents: Mapping[UUID, ColdContent]) -> dict[UUID, ColdContent]:
    """Return as many contents as fit into a segment, grouped by subject."""
    fitting: dict[UUID, ColdContent] = {}
    size = 0
    for memory_id, content in contents.items():
        size += len(content.body)
        if fitting and size > SEGMENT_CHARACTERS:
            break
        fitting[memory_id] = content
    return dict(sorted(fitting.items(), key=lambda item: (item[1].subject or "", item[0])))


def _sealed(tenant_id: UUID, contents: Mapping[UUID, ColdContent]) -> _Written:
    owners = encryption_keys.load_owner_keys(tenant_id, {content.subject for content in contents.values()})
    wrapped: dict[UUID, WrappedKey] = {}
    records = [_record(tenant_id, memory_id, content, owners, wrapped) for memory_id, content in contents.items()]
    return _Written(uuid4(), cold_segment.encode(tenant_id, records), contents, wrapped, owners.wrapped)


def _record(
    tenant_id: UUID, memory_id: UUID, content: ColdContent, owners: OwnerKeys, wrapped: dict[UUID, WrappedKey]
) -> SealedRecord:
    key_id, key, nonce = uuid4(), os.urandom(encryption.KEY_BYTES), os.urandom(encryption.NONCE_BYTES)
    owner = owners.by_subject[content.subject]
    wrapped[key_id] = encryption_keys.wrap_record(tenant_id, key_id, key, owner, owners.keys[owner])
    bound = encryption.record_associated_data(tenant_id, memory_id, content.text_version)
    body = encryption.seal(key, nonce, content.body.encode(), bound)
    return SealedRecord(memory_id, key_id, content.text_version, body)


def write_segment(store: ColdStore, tenant_id: UUID, segment_id: UUID, made: Segment) -> None:
    """Write a segment and verify it by reading it back; no memory refers to it before `finish_segment`.

    Raises:
        StoreFailed: The store is unreachable, full, or denies access, or returns other data than was written.
    """
    path, data = segment_path(tenant_id, segment_id), made.data
    with database.tenant(tenant_id) as tx:
        check = cold_segment.checksum(data)
        cold_segments.insert_segment(tx, tenant_id, segment_id, path, len(data), check, records=len(made.entries))
    failpoints.trigger("cold.before_put")
    store.put(path, data)
    failpoints.trigger("cold.after_put")
    if store.get(path) != data:
        raise StoreFailed(FailureKind.AWAY, "cold storage returned different data than was written")
    failpoints.trigger("cold.after_verify")


def segment_path(tenant_id: UUID, segment_id: UUID) -> str:
    """Return the store path of a segment's object."""
    return f"segments/{tenant_id}/{segment_id}"


def _record_move(tenant_id: UUID, written: _Written, as_of: datetime | None) -> int:
    """Shorten the rows of memories that haven't changed since encryption, and link the rows to their records.

    Returns:
        The number of memories moved.
    """
    with memory_write(tenant_id, "tier", "cold.before_commit") as write:
        tx = write.tx
        due = transitions.judge_again(write, list(written.contents), SOURCE, as_of)
        owner_keys = wrapped_keys.read_owner_keys(tx, tenant_id, list(written.owners), held=True)
        current = cold_segments.read_contents(tx, tenant_id, due.held.ids)
        owner_of = {key_id: wrapped.owner for key_id, wrapped in written.keys.items()}
        entries = {
            entry.memory_id: entry
            for entry in written.segment.entries
            if current.get(entry.memory_id) == written.contents[entry.memory_id]
            and owner_keys.get(owner_of[entry.key_id]) == written.owners[owner_of[entry.key_id]]
        }
        rows = [row for row, memory_id in enumerate(due.held.ids) if memory_id in entries]
        moved = due.only(np.array(rows, np.intp))
        if not cold_segments.finish_segment(tx, tenant_id, written.segment_id, len(rows)):
            raise SegmentLost
        if rows:
            moved_entries = [entries[memory_id] for memory_id in moved.held.ids]
            wrapped_keys.add_records(tx, tenant_id, {item.key_id: written.keys[item.key_id] for item in moved_entries})
            cold_segments.upsert_locations(tx, tenant_id, written.segment_id, moved_entries)
            texts = {item: abridge(written.contents[item].text) for item in moved.held.ids}
            _cut_down(tx, tenant_id, texts)
            added_bytes = sum(
                len(text.encode()) - len(written.contents[item].text.encode()) for item, text in texts.items()
            )
            transitions.record_moves(write, moved, "cold", text_bytes=added_bytes)
    failpoints.trigger("cold.after_commit")
    metrics.count("cold_moved", len(rows))
    return len(rows)


def _cut_down(tx: database.Transaction, tenant_id: UUID, texts: dict[UUID, str]) -> None:
    if cold_segments.has_words(tx, tenant_id, list(texts)):
        word_index.remove(tx, tenant_id, list(texts))
    cold_segments.truncate_rows(tx, tenant_id, texts)


def run_job_slice(job: Job) -> Step:
    """Move due memories to cold storage for `STEP_SECONDS`."""
    return run_slice(job.tenant_id, rebase.reference_time(job), job.state, time.monotonic() + STEP_SECONDS)


def run_slice(tenant_id: UUID, as_of: datetime | None, state: dict[str, Any], until: float) -> Step:
    """Sweep, then move memories to cold storage; see `rebase.run_slice` for the arguments.

    All slices use the same reference time. The work therefore ends, even while other processes change memories.

    Raises:
        StoreFailed: The store is unreachable, full, or denies access; earlier moves remain in effect.
        Misconfigured: The master key is missing or has changed.
    """
    if not state:
        with database.tenant(tenant_id) as tx:
            as_of = as_of or database.now(tx)
        clean_segments(tenant_id)
        return Step(0, {"as_of": as_of.isoformat(), "sweep": {}}, finished=False)
    as_of = datetime.fromisoformat(state["as_of"])
    if "sweep" in state:
        swept = sweep.run_slice(tenant_id, as_of, state["sweep"], until)
        next_state = {"as_of": state["as_of"]} | ({} if swept.finished else {"sweep": swept.state})
        return Step(0, next_state, finished=False)
    chosen_total, moved = 0, 0
    while True:
        chosen, now_cold = move_segment(tenant_id, as_of)
        chosen_total, moved = chosen_total + chosen, moved + now_cold
        if not now_cold or time.monotonic() >= until:
            return Step(chosen_total, state, finished=not now_cold, counts={"cold": moved})


def _cold_tiers(_: StoredStates, standing: TierFacts, decision: Decision) -> tuple[Tiers, Tiers]:
    """Return the tiers before and after the work: only decay causes moves, and no memory moves below cold storage.

    Memories that expire or are to be erased aren't copied to cold storage before their deletion.
    """
    lower = np.minimum(decision.tiers, DECAY_TIERS.index("cold"))
    return standing.tiers, np.where(decision.rules == _DECAY, np.maximum(standing.tiers, lower), standing.tiers)


WORK: Final = DryRunKind(("cold",), lambda _tx, _tenant_id, _version: SOURCE, _cold_tiers)


preview_cold = partial(dry_run.preview_moves, WORK)
"""Return the moves to cold storage at a given time; see `dry_run.preview_moves` for the arguments."""


def clean_segments(tenant_id: UUID) -> int:
    """Drop segments that aren't finished, and delete the objects of dropped segments.

    If a process is still writing one of these segments, its transaction fails with `SegmentLost` and changes nothing.

    Returns:
        The number of objects deleted.

    Raises:
        StoreFailed: The store is unreachable or denies access. The segments are dropped anyway; the next run deletes
            their objects.
    """
    with database.tenant(tenant_id) as tx:
        cold_segments.drop_unwritten(tx, tenant_id)
        dropped = cold_segments.list_dropped(tx, tenant_id)
    return delete(tenant_id, dropped)


def delete(tenant_id: UUID, dropped: Sequence[tuple[UUID, str]]) -> int:
    """Delete the objects of dropped segments, then the segments' rows in PostgreSQL. Return the number of segments."""
    if not dropped:
        return 0
    store = cold_store()
    for _, path in dropped:
        store.delete(path)
    failpoints.trigger("cold.after_delete")
    with database.tenant(tenant_id) as tx:
        cold_segments.forget(tx, tenant_id, [segment_id for segment_id, _ in dropped])
    return len(dropped)
