"""Run the export job: read a subject's data section by section and write it to the object store in encrypted parts.

Progress and the object name of each part are stored in the export's row, which is updated after the objects are stored.
Each attempt writes new objects, so a late write by a worker that has lost its lease overwrites nothing.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

import msgspec
import numpy as np

from app import failpoints
from app.clients.object_store import cold_store
from app.clients.redis import stream_pages
from app.domain.changes.types import EXPORT_READY
from app.domain.dynamics.state import FAR_SECONDS
from app.domain.ingest.bodies import decode
from app.domain.ingest.envelope import Envelope, MalformedEnvelope, decode_envelope
from app.domain.ingest.ids import memory_uuids
from app.domain.ingest.memory import MemoryIn
from app.domain.jobs import Job, Step
from app.domain.privacy.export import GIVEN, format_line, in_record, part_associated_data, split_parts
from app.domain.privacy.pii_detection import count_identities
from app.domain.tiers import encryption, explanation
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.domain.tiers.tier_decision import RULES
from app.errors import EbbingError
from app.services.privacy import export_requests
from app.services.security import encryption_keys
from app.services.strength import memory_strength
from app.services.tiers import cold_restore
from app.settings import settings
from app.store.changes import feed
from app.store.core import database
from app.store.enrichment.work_queue import NIL
from app.store.erasure import requests
from app.store.privacy import exports, request_log, subject_data
from app.store.privacy.exports import Export
from app.store.strength import states
from app.store.tiers import cold_segments, protections

ROWS: Final = 200
HISTORY_ROWS: Final = 5000
ENTRIES: Final = 50
STEP_SECONDS: Final = 2.0

_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)


class SectionPage(NamedTuple):
    """A page of a section.

    Attributes:
        lines: JSON objects, one per line.
        after: Cursor of the next page, JSON-serialisable; None at the end.
        counts: Numbers to add to the export's counts.
    """

    lines: list[bytes]
    after: Any
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class Section:
    """A section of an export: its target file, and a function that reads one page in transactions of its own."""

    file: str
    read: Callable[[UUID, str, Any], SectionPage]


def run_job_slice(job: Job) -> Step:
    """Write an export for `STEP_SECONDS`.

    Raises:
        StoreFailed: The object store is unreachable, full, or denies access.
        Misconfigured: The master key is missing or has changed.
    """
    tenant_id, export_id = job.tenant_id, UUID(job.parameters["export_id"])
    deadline, written = time.monotonic() + STEP_SECONDS, 0
    while True:
        with database.tenant(tenant_id) as tx:
            requests.lock_shared(tx, tenant_id)
            export = exports.get(tx, tenant_id, export_id)
            key = encryption_keys.open_record_keys(tx, tenant_id, [export_id]).get(export_id)
            is_free = export is not None and export_requests.is_free(tx, tenant_id, export.subject)
        if export is None or export.subject is None or key is None or not is_free:
            return Step(written, {}, finished=True, failure="the subject was erased or the export expired")
        sections = SECTIONS[export.kind]
        if export.place["section"] >= len(sections):
            return _finish(tenant_id, export, written)
        added = _write(tenant_id, export, sections, key)
        if added is None:  # the next step finds out whether the export has ended or another worker continues it
            return Step(written, {}, finished=False)
        written += added
        if time.monotonic() >= deadline:
            return Step(written, {}, finished=False)


def _write(tenant_id: UUID, export: Export, sections: Sequence[Section], key: bytes) -> int | None:
    """Read, encrypt and store one page, and record the progress.

    Returns:
        The number of lines, or None if the export has ended or another worker has continued it, which is possible if
        the job's lease lapsed during a slow read or write.
    """
    section_index = export.place["section"]
    section = sections[section_index]
    page = section.read(tenant_id, export.subject or "", export.place["after"])
    with database.tenant(tenant_id) as tx:
        if not _is_unchanged(export, exports.get(tx, tenant_id, export.export_id)):
            return None
    written, objects = list(export.parts), export.objects
    for part in split_parts(page.lines):
        objects.append(_put(tenant_id, export.export_id, len(written), part, key))
        written.append((section.file, len(part)))
    failpoints.trigger("export.after_put")
    place = (
        {"section": section_index + 1, "after": None}
        if page.after is None
        else {"section": section_index, "after": page.after}
    )
    with database.tenant(tenant_id) as tx:
        current = exports.get(tx, tenant_id, export.export_id, locked=True)
        if _is_unchanged(export, current):
            counts = dict(Counter(export.counts) + Counter({section.file: len(page.lines)} | page.counts))
            place |= {"objects": objects}
            exports.record_progress(tx, tenant_id, export.export_id, place=place, parts=written, counts=counts)
            failpoints.trigger("export.before_commit")
            return len(page.lines)
    for name in objects[len(export.parts) :]:  # no row refers to these objects
        cold_store().delete(export_requests.part_path(tenant_id, export.export_id, name))
    return None


def _is_unchanged(export: Export, now: Export | None) -> bool:
    """Return whether the export is still running and its progress is the same as in the copy read before."""
    return now is not None and (now.status, now.place, now.parts) == ("running", export.place, export.parts)


def _put(tenant_id: UUID, export_id: UUID, number: int, part: Sequence[bytes], key: bytes) -> str:
    """Encrypt a part and store it as an object with a new name, which no other attempt uses; return the name."""
    nonce, name = os.urandom(encryption.NONCE_BYTES), f"{number:06}-{uuid4().hex}"
    sealed = encryption.seal(
        key, nonce, b"\n".join(part) + b"\n", part_associated_data(tenant_id.bytes + export_id.bytes, number)
    )
    cold_store().put(export_requests.part_path(tenant_id, export_id, name), sealed)
    return name


def _delete_leftovers(tenant_id: UUID, export: Export) -> None:
    """Delete objects that were written by killed attempts and aren't named in the export's row."""
    named = {export_requests.part_path(tenant_id, export.export_id, name) for name in export.objects}
    for stored in list(cold_store().list_folder(export_requests.export_folder(tenant_id, export.export_id))):
        if stored.path not in named:
            cold_store().delete(stored.path)


def _finish(tenant_id: UUID, export: Export, done: int) -> Step:
    _delete_leftovers(tenant_id, export)
    with database.tenant(tenant_id) as tx:
        current = export_requests.get_or_404(tx, tenant_id, export.export_id, locked=True)
        if current.status == "running":
            exports.finish_export(tx, tenant_id, export.export_id, settings().export_days)
            request_log.store_answer(tx, tenant_id, [export.export_id], "done")
            feed.record(tx, tenant_id, EXPORT_READY, [export.export_id])
    return Step(done, {}, finished=True, counts=export.counts)


# --- Sections ---


def _memories(tenant_id: UUID, subject: str, after: Any) -> SectionPage:
    """Read all data of memories. Contents in cold storage are fetched; unreadable contents are reported as damaged."""
    with database.tenant(tenant_id) as tx:
        ids = subject_data.list_ids(tx, tenant_id, subject, UUID(after) if after else NIL, ROWS)
        stored = subject_data.list_memories(tx, tenant_id, ids)
        live_numbers = _live(tx, tenant_id, ids)
        fetch = _cold_reader(tx, tenant_id, [memory.memory_id for memory in stored if memory.tier == "cold"])
    bodies, damaged = fetch()
    lines = []
    for memory in stored:
        body = bodies.get(memory.memory_id)
        line: dict[str, Any] = {"memory": msgspec.Raw(memory.memory.encode())}
        if body is not None:
            fields = msgspec.json.decode(memory.memory, type=dict[str, msgspec.Raw])
            fields |= msgspec.json.decode(body, type=dict[str, msgspec.Raw])
            line["memory"] = fields
        line |= {"tier": memory.tier, "hidden": memory.hidden, "held": memory.held, "quarantined": memory.quarantined}
        line |= live_numbers.get(memory.memory_id, _NOT_LIVING)
        line |= {name: msgspec.Raw(getattr(memory, name).encode()) for name in ("state", "score", "others")}
        line["identities"] = count_identities(_read_text(body or memory.memory))
        if memory.memory_id in damaged:
            line["damaged"] = damaged[memory.memory_id]
        lines.append(msgspec.json.encode(line))
    counts = {"damaged": len(damaged), "hidden": sum(memory.hidden for memory in stored)}
    return SectionPage(lines, str(ids[-1]) if len(ids) == ROWS else None, counts)


class _Text(msgspec.Struct):
    text: str = ""


_text_decoder: Final = msgspec.json.Decoder(_Text)


def _read_text(fields: str | bytes) -> str:
    return _text_decoder.decode(fields).text


_NOT_LIVING: Final = {"strength": None, "importance": None, "retention": None}


def _live(tx: database.Transaction, tenant_id: UUID, ids: Sequence[UUID]) -> dict[UUID, dict[str, Any]]:
    """Return the strength, the importance and the retention decision of each memory that isn't hidden."""
    stored = states.read(tx, tenant_id, ids)
    if not stored.ids:
        return {}
    times = memory_strength.load_timeline(tx, tenant_id)
    latest = max(float(np.max(stored.state.anchored_at)), float(np.max(times.since(stored.versions))))
    now = max(database.now(tx).timestamp(), latest)
    era = times.at(now)
    protected = protections.read(tx, tenant_id, stored.ids, era.policy.rules)
    state = memory_strength.advance_to_era(stored, times, now).state
    strengths, decision = memory_strength.decide_tiers(era, state, now, protected)
    reasons = explanation.explain_decisions(era.policy.rules, protected, state, now, strengths, decision)
    due = memory_strength.due_at(era, state, now, strengths, protected).tolist()
    return {
        memory_id: {
            "strength": float(strengths.strength[row]),
            "importance": float(strengths.importance[row]),
            "retention": {
                "wanted_tier": DECAY_TIERS[decision.tiers[row]],
                "rule": RULES[decision.rules[row]],
                "why": reasons[row],
                "as_of": datetime.fromtimestamp(now, UTC),
                "next_change_at": datetime.fromtimestamp(due[row], UTC) if due[row] < FAR_SECONDS else None,
            },
        }
        for row, memory_id in enumerate(stored.ids)
    }


def _history(tenant_id: UUID, subject: str, after: Any) -> SectionPage:
    cursor = (UUID(after[0]), datetime.fromisoformat(after[1]), after[2]) if after else (NIL, _EARLIEST, 0)
    with database.tenant(tenant_id) as tx:
        events = subject_data.list_events(tx, tenant_id, subject, cursor, HISTORY_ROWS)
    following = None
    if len(events) == HISTORY_ROWS:
        memory_id, at, event_id, _ = events[-1]
        following = [str(memory_id), at.isoformat(), event_id]
    return SectionPage([line.encode() for *_, line in events], following, {})


def _pending(tenant_id: UUID, subject: str, after: Any) -> SectionPage:
    """Read memories that were accepted but aren't stored yet."""
    envelopes, following = stream_pages.read_page(tenant_id, after or "0-0", ENTRIES)
    return SectionPage(
        [line for envelope in envelopes for line in _waiting(envelope, subject, "pending")], following, {}
    )


def _letters(tenant_id: UUID, subject: str, after: Any) -> SectionPage:
    """Read dead letters: first those of stored memories, then those of memories that couldn't be stored."""
    kind, place = after or ("stored", str(NIL))
    if kind == "stored":
        with database.tenant(tenant_id) as tx:
            letters = subject_data.list_letters(tx, tenant_id, subject, UUID(place), ROWS)
        following = ["stored", str(letters[-1][0])] if len(letters) == ROWS else ["unstored", str(NIL)]
        return SectionPage([line.encode() for _, line in letters], following, {})
    envelopes, following_unstored = _unstored(tenant_id, place)
    return SectionPage(
        [line for envelope in envelopes for line in _waiting(envelope, subject, "dead letter")], following_unstored, {}
    )


def _unstored(tenant_id: UUID, after: str) -> tuple[list[Envelope], list[str] | None]:
    with database.tenant(tenant_id) as tx:
        letters = subject_data.list_unstored(tx, tenant_id, UUID(after), ENTRIES)
    envelopes = []
    for _, entry_id, header, payload, memories in letters:
        try:
            envelopes.append(decode_envelope(entry_id, str(memories).encode(), header, payload))
        except MalformedEnvelope:
            continue  # unreadable, so its subject is unknown
    return envelopes, ["unstored", str(letters[-1][0])] if len(letters) == ENTRIES else None


def _waiting(envelope: Envelope, subject: str, state: str) -> Iterable[bytes]:
    for memory_id, memory in _about(envelope, subject):
        yield msgspec.json.encode({"id": memory_id, "state": state, "given": msgspec.structs.asdict(memory)})


def _about(envelope: Envelope, subject: str) -> list[tuple[str, MemoryIn]]:
    """Return the ids and memories in an envelope that are about the subject; none if the envelope can't be decoded."""
    if envelope.form == "touches":
        return []
    try:
        memories = decode(envelope.body, envelope.form, dimensions=None)
    except EbbingError:
        return []
    ids = memory_uuids(envelope.base, len(memories))
    return [(memory_id, memory) for memory_id, memory in zip(ids, memories, strict=True) if memory.subject == subject]


def _service(tenant_id: UUID, subject: str, _after: Any) -> SectionPage:
    with database.tenant(tenant_id) as tx:
        return SectionPage([line.encode() for line in subject_data.list_service_data(tx, tenant_id, subject)], None, {})


def _given(tenant_id: UUID, subject: str, after: Any) -> SectionPage:
    """Read memories as callers sent them; for unreadable cold memories, only the fields that remain in their rows."""
    with database.tenant(tenant_id) as tx:
        ids = subject_data.list_ids(tx, tenant_id, subject, UUID(after) if after else NIL, ROWS, given=True)
        sent = subject_data.list_given(tx, tenant_id, ids)
        fetch = _cold_reader(tx, tenant_id, ids)
    bodies, damaged = fetch()
    lines = [
        format_line(fields | (in_record(bodies[memory_id]) if memory_id in bodies else {}))
        for memory_id, fields in sent.items()
    ]
    return SectionPage(lines, str(ids[-1]) if len(ids) == ROWS else None, {"damaged": len(damaged)})


def _given_pending(tenant_id: UUID, subject: str, after: Any) -> SectionPage:
    envelopes, following = stream_pages.read_page(tenant_id, after or "0-0", ENTRIES)
    return SectionPage(_given_lines(envelopes, subject), following, {})


def _given_letters(tenant_id: UUID, subject: str, after: Any) -> SectionPage:
    envelopes, following = _unstored(tenant_id, after[1] if after else str(NIL))
    return SectionPage(_given_lines(envelopes, subject), following, {})


def _given_lines(envelopes: Iterable[Envelope], subject: str) -> list[bytes]:
    lines = []
    for envelope in envelopes:
        accepted_at = datetime.fromtimestamp(envelope.accepted_ms / 1000, UTC)
        for _, memory in _about(envelope, subject):
            fields = {name: getattr(memory, name) for name in GIVEN}
            lines.append(format_line(fields | {"occurred_at": memory.occurred_at or accepted_at}))
    return lines


Fetch = Callable[[], tuple[dict[UUID, str], dict[UUID, str]]]


def _cold_reader(tx: database.Transaction, tenant_id: UUID, ids: Sequence[UUID]) -> Fetch:
    """Return a function that fetches the contents of cold memories after the transaction has ended.

    The function returns the contents by memory id, and the reason for each memory whose contents are unavailable.
    """
    places = cold_segments.list_locations(tx, tenant_id, ids)
    opened = encryption_keys.open_record_keys(tx, tenant_id, [place.entry.key_id for place in places.values()])
    return lambda: cold_restore.fetch_contents(tenant_id, places, opened)


SECTIONS: Final[dict[str, tuple[Section, ...]]] = {
    "access": (
        Section("dead_letters.jsonl", _letters),
        Section("pending.jsonl", _pending),
        Section("memories.jsonl", _memories),
        Section("history.jsonl", _history),
        Section("service.jsonl", _service),
    ),
    "portable": (
        Section("given.jsonl", _given_letters),
        Section("given.jsonl", _given_pending),
        Section("given.jsonl", _given),
    ),
}
"""Sections by kind of export.

Pending data is read before stored data, so data that is stored between the two reads is exported twice rather than
missed.
"""
