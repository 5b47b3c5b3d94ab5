"""The move into cold storage: many memories as one object, written and read back before anything else is given up.

First they are chosen and read, then a segment of them is sealed and written outside of any transaction, then each is
looked at again: what was changed, used or held meanwhile stays, and its record is a gap. Whoever is killed leaves the
old state or the new one, and maybe a segment that nothing points to, which the next run drops.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid4

import numpy as np
import structlog

from app import failpoints, metrics
from app.clients.cold_store import ColdStore, Failure, StoreFailed, cold_store
from app.domain.jobs import Job, Step
from app.domain.text.abridgement import abridged
from app.domain.tiers import sealing, segment
from app.domain.tiers.lifecycle import RULES, Decision, Standing
from app.domain.tiers.segment import Sealed, Segment
from app.domain.tiers.tiers import DECAY_TIERS
from app.services.security import key_store
from app.services.security.key_store import Owners
from app.services.strength import rebase
from app.services.tiers import moves, previews, sweep
from app.services.tiers.previews import Preview, Tiers, Work
from app.store.core import database
from app.store.enrichment import words
from app.store.strength.states import Held
from app.store.tiers import cold
from app.store.tiers import key_store as keys
from app.store.tiers.cold import Content
from app.store.tiers.key_store import Wrapped

KIND: Final = "cold"
SOURCE: Final = "archived"
SEGMENT_BYTES: Final = 8 << 20
"""Of contents, before they are compressed; what is more waits for the next segment."""
STEP_SECONDS: Final = 2.0
_DECAY: Final = RULES.index("decay")

log = structlog.get_logger(__name__)


class SegmentLost(Exception):
    """Somebody has dropped the segment that was being written: they held its writer for dead."""


@dataclass(frozen=True, slots=True)
class _Written:
    """A segment that is in the store, and what is to be entered of it.

    Attributes:
        contents: What was sealed, by memory.
        keys: Wrapped keys of the records.
        owners: Wrapped keys of those who own them, as they were.
    """

    segment_id: UUID
    segment: Segment
    contents: Mapping[UUID, Content]
    keys: Mapping[UUID, Wrapped]
    owners: Mapping[bytes, bytes]


def move(tenant_id: UUID, as_of: datetime | None = None, limit: int = segment.RECORDS) -> tuple[int, int]:
    """Move a segment of memories from the archive into cold storage, of those that decay wants lower. Until 0.

    Args:
        tenant_id: The tenant.
        as_of: Up to now; None for now.
        limit: Most memories.

    Returns:
        How many were chosen, and how many of these were moved.

    Raises:
        StoreFailed: The store is away or full, or refuses us; nothing has changed.
        Misconfigured: There is no master key, or another one than before.
    """
    store = cold_store()
    with database.tenant(tenant_id) as tx:
        due = moves.take(tx, tenant_id, SOURCE, limit, as_of)
        # What must go by law or by wish isn't copied first.
        fading = due.only(np.flatnonzero(due.decision.rules == _DECAY))
        contents = _fitting(cold.contents(tx, tenant_id, fading.held.ids))
    if not contents:
        return 0, 0
    written = _sealed(tenant_id, contents)
    put(store, tenant_id, written.segment_id, written.segment)
    return len(contents), _enter(tenant_id, written, as_of)


def _fitting(contents: Mapping[UUID, Content]) -> dict[UUID, Content]:
    """As many as fit into a segment, subjects side by side."""
    fitting: dict[UUID, Content] = {}
    size = 0
    for memory_id, content in contents.items():
        size += len(content.body)
        if fitting and size > SEGMENT_BYTES:
            break
        fitting[memory_id] = content
    return dict(sorted(fitting.items(), key=lambda item: (item[1].subject or "", item[0])))


def _sealed(tenant_id: UUID, contents: Mapping[UUID, Content]) -> _Written:
    owners = key_store.owners(tenant_id, {content.subject for content in contents.values()})
    wrapped: dict[UUID, Wrapped] = {}
    records = [_record(tenant_id, memory_id, content, owners, wrapped) for memory_id, content in contents.items()]
    return _Written(uuid4(), segment.encode(tenant_id, records), contents, wrapped, owners.wrapped)


def _record(tenant_id: UUID, memory_id: UUID, content: Content, owners: Owners, wrapped: dict[UUID, Wrapped]) -> Sealed:
    key_id, key, nonce = uuid4(), os.urandom(sealing.KEY_BYTES), os.urandom(sealing.NONCE_BYTES)
    owner = owners.by_subject[content.subject]
    wrapped[key_id] = key_store.wrap_record(tenant_id, key_id, key, owner, owners.keys[owner])
    bound = sealing.bound_to(tenant_id, memory_id, content.text_version)
    body = sealing.seal(key, nonce, content.body.encode(), bound)
    return Sealed(memory_id, key_id, content.text_version, body)


def put(store: ColdStore, tenant_id: UUID, segment_id: UUID, made: Segment) -> None:
    """Write a segment, and read it back; until it is finished, nothing points to it.

    Raises:
        StoreFailed: It isn't there now, or not as it was written.
    """
    path, data = path_of(tenant_id, segment_id), made.data
    with database.tenant(tenant_id) as tx:
        check = segment.checksum(data)
        cold.begin(tx, tenant_id, segment_id, path, len(data), check, records=len(made.entries))
    failpoints.reach("cold.before_put")
    store.put(path, data)
    failpoints.reach("cold.after_put")
    if store.get(path) != data:
        raise StoreFailed(Failure.AWAY, "cold storage gives back something else than what was written")
    failpoints.reach("cold.after_verify")


def path_of(tenant_id: UUID, segment_id: UUID) -> str:
    """Where a segment's object is in the store."""
    return f"segments/{tenant_id}/{segment_id}"


def _enter(tenant_id: UUID, written: _Written, as_of: datetime | None) -> int:
    """Cut down the rows of what is as it was when it was sealed, and point to their records. Returns how many."""
    with database.tenant(tenant_id) as tx:
        due = moves.retake(tx, tenant_id, list(written.contents), SOURCE, as_of)
        kept = keys.owners(tx, tenant_id, list(written.owners), held=True)
        now = cold.contents(tx, tenant_id, due.held.ids)
        owner_of = {key_id: wrapped.owner for key_id, wrapped in written.keys.items()}
        entries = {
            entry.memory_id: entry
            for entry in written.segment.entries
            if now.get(entry.memory_id) == written.contents[entry.memory_id]
            and kept.get(owner_of[entry.key_id]) == written.owners[owner_of[entry.key_id]]
        }
        places = [place for place, memory_id in enumerate(due.held.ids) if memory_id in entries]
        moved = due.only(np.array(places, np.intp))
        if not cold.finish(tx, tenant_id, written.segment_id, len(places)):
            raise SegmentLost
        if places:
            moved_entries = [entries[memory_id] for memory_id in moved.held.ids]
            keys.add_records(tx, tenant_id, {each.key_id: written.keys[each.key_id] for each in moved_entries})
            cold.place(tx, tenant_id, written.segment_id, moved_entries)
            texts = {each: abridged(written.contents[each].text) for each in moved.held.ids}
            _cut_down(tx, tenant_id, texts)
            more = sum(len(text.encode()) - len(written.contents[each].text.encode()) for each, text in texts.items())
            moves.note(tx, tenant_id, moved, "cold", text_bytes=more)
        failpoints.reach("cold.before_commit")
    failpoints.reach("cold.after_commit")
    metrics.count("cold_moved", len(places))
    return len(places)


def _cut_down(tx: database.Transaction, tenant_id: UUID, texts: dict[UUID, str]) -> None:
    if cold.has_words(tx, tenant_id, list(texts)):
        words.remove(tx, tenant_id, list(texts))
    cold.cut_down(tx, tenant_id, texts)


def step(job: Job) -> Step:
    """A few seconds of moving what is due into cold storage."""
    return carry_on(job.tenant_id, rebase.moment_of(job), job.state, time.monotonic() + STEP_SECONDS)


def carry_on(tenant_id: UUID, as_of: datetime | None, state: dict[str, Any], until: float) -> Step:
    """Go on with the moves into cold storage, a sweep first; arguments as `rebase.carry_on`'s.

    All of its slices are of one moment, so that it comes to an end whatever happens meanwhile.

    Raises:
        StoreFailed: The store is away or full, or refuses us; what was moved before stays so.
        Misconfigured: There is no master key, or another one than before.
    """
    if not state:
        with database.tenant(tenant_id) as tx:
            as_of = as_of or database.now(tx)
        clean(tenant_id)
        return Step(0, {"as_of": as_of.isoformat(), "sweep": {}}, finished=False)
    as_of = datetime.fromisoformat(state["as_of"])
    if "sweep" in state:
        swept = sweep.carry_on(tenant_id, as_of, state["sweep"], until)
        kept = {"as_of": state["as_of"]} | ({} if swept.finished else {"sweep": swept.state})
        return Step(0, kept, finished=False)
    done, moved = 0, 0
    while True:
        chosen, now_cold = move(tenant_id, as_of)
        done, moved = done + chosen, moved + now_cold
        if not now_cold or time.monotonic() >= until:
            return Step(done, state, finished=not now_cold, counts={"cold": moved})


def _cooled(_: Held, standing: Standing, decision: Decision) -> tuple[Tiers, Tiers]:
    """One step down, of what decay wants lower: what expires or is erased isn't copied first."""
    lower = np.minimum(decision.tiers, DECAY_TIERS.index("cold"))
    return standing.tiers, np.where(decision.rules == _DECAY, np.maximum(standing.tiers, lower), standing.tiers)


WORK: Final = Work(("cold",), lambda _tx, _tenant_id, _version: SOURCE, _cooled)


def preview(tenant_id: UUID, as_of: datetime | None, after: UUID | None, limit: int) -> Preview:
    """What a move into cold storage at a moment would take; arguments as `previews.preview`'s."""
    return previews.preview(WORK, tenant_id, as_of, after, limit)


def clean(tenant_id: UUID) -> int:
    """Drop the segments that were begun and never finished, and delete the objects of dropped ones. Returns how many.

    Whoever is still writing one of them loses it, finds that out when it enters it, and has changed nothing.

    Raises:
        StoreFailed: The store is away or refuses us; they are dropped all the same, and deleted by the next run.
    """
    with database.tenant(tenant_id) as tx:
        cold.drop_unwritten(tx, tenant_id)
        dropped = cold.dropped(tx, tenant_id)
    return delete(tenant_id, dropped)


def delete(tenant_id: UUID, dropped: Sequence[tuple[UUID, str]]) -> int:
    """Delete the objects of dropped segments, and then forget these. Returns how many."""
    if not dropped:
        return 0
    store = cold_store()
    for _, path in dropped:
        store.delete(path)
    failpoints.reach("cold.after_delete")
    with database.tenant(tenant_id) as tx:
        cold.forget(tx, tenant_id, [segment_id for segment_id, _ in dropped])
    return len(dropped)
