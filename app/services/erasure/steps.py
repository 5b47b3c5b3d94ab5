"""The steps of an erasure, in execution order: data needed to find other data is erased later, and keys are last.

Every step can be repeated from its start. Each piece of a step runs with the erasure's row locked and only while the
step is the next one, so two workers never execute the same step.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from app import failpoints, queues
from app.clients.redis import stream_position
from app.domain.ingest.envelope import strip_caller_ids
from app.domain.ingest.ids import extract_unix_ms
from app.domain.privacy import dead_letter_redaction
from app.domain.privacy.documents.texts import ENGLISH
from app.domain.privacy.erasure import Named, digest, is_whole
from app.services.erasure.index_removal import ROWS
from app.services.erasure.requests import get_or_404
from app.services.notes import note_erasure
from app.services.privacy import export_requests, import_files, retained_texts
from app.services.security import audit, encryption_keys
from app.services.tiers import pca_refit
from app.store.core import database
from app.store.enrichment.work_queue import NIL
from app.store.erasure import references, requests, residue, tombstones
from app.store.erasure.requests import Erasure
from app.store.memories import tenant_counts
from app.store.privacy import holds
from app.store.strength import states
from app.store.tiers import cold_segments, pca_bases, row_deletion, tier_moves, wrapped_keys
from app.store.tiers.pca_bases import BasisInfo

STEP_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.05


class Overtaken(Exception):
    """Raised when another worker has completed the step, or the erasure is no longer running."""


@dataclass(frozen=True, slots=True)
class StepCount:
    """The amount of work found for a step.

    Attributes:
        more: Additional fields for the step's entry in the plan.
        retained: Data that exists and may remain, such as the key of data under a legal hold.
    """

    count: int
    more: dict[str, Any] = field(default_factory=dict)
    retained: int = 0


class StepProgress(NamedTuple):
    """Progress of one piece of a step: the position to resume from (None when complete) and the number removed."""

    left: str | None
    removed: int


@dataclass(frozen=True, slots=True)
class ErasureStep:
    """One step of an erasure.

    Attributes:
        store: Name of the store in the report.
        method: Method of deletion, as described in the report.
        find: Counts the work for these memories and the rest of the erasure's scope. Called when the plan is written,
            and again for verification, when it must find nothing.
        erase: Runs a piece of the step on the memories that the ledger lists, from a position ("" at first) until a
            deadline on the monotonic clock.
    """

    store: str
    method: str
    find: Callable[[UUID, Erasure, Sequence[UUID]], StepCount]
    erase: Callable[[UUID, Erasure, Sequence[UUID], str, float], StepProgress]


def next_step(erasure: Erasure) -> str | None:
    """Return the first step of the plan that isn't executed yet, or None if all are."""
    executed = {step["step"] for step in erasure.executed}
    return next((step["step"] for step in erasure.plan or () if step["step"] not in executed), None)


@contextmanager
def step_transaction(tenant_id: UUID, erasure: Erasure, step: str) -> Iterator[database.Transaction]:
    """Open a transaction for a step, with the erasure's row locked and the legal holds' lock shared.

    Raises:
        Overtaken: The step is no longer the erasure's next one, or the erasure is no longer running.
    """
    with database.tenant(tenant_id) as tx:
        holds.lock_shared(tx, tenant_id)
        current = get_or_404(tx, tenant_id, erasure.erasure_id, locked=True)
        if current.status != "running" or next_step(current) != step:
            raise Overtaken
        yield tx


def is_waiting(tenant_id: UUID, cut: str) -> bool:
    """Return True if data up to the watermark still isn't ingested after waiting up to `STEP_SECONDS`."""
    until = time.monotonic() + STEP_SECONDS
    while stream_position.is_waiting(tenant_id, cut):
        if time.monotonic() >= until:
            queues.nudge(queues.DRAIN)
            return True
        time.sleep(_POLL_SECONDS)
    return False


def names(erasure: Erasure) -> dict[Named, str]:
    """Return the subject or thread that the erasure covers completely, or an empty mapping."""
    scope = erasure.scope
    if scope.subject is not None and is_whole(scope, "subject"):
        return {"subject": scope.subject}
    if scope.thread is not None and is_whole(scope, "thread"):
        return {"thread": scope.thread}
    return {}


# --- Dead letters ---


def _find_letters(tenant_id: UUID, erasure: Erasure, memory_ids: Sequence[UUID]) -> StepCount:
    erased, after, count = set(memory_ids), NIL, 0
    while True:
        with database.tenant(tenant_id) as tx:
            letters = references.letters(tx, tenant_id, after)
        count += sum(_without(erasure, erased, letter).removed > 0 for letter in letters)
        if len(letters) < references.LETTERS:
            return StepCount(count)
        after = letters[-1].letter_id


def _erase_letters(tenant_id: UUID, erasure: Erasure, ids: Sequence[UUID], at: str, until: float) -> StepProgress:
    """Remove the erasure's data from dead letters; delete letters that have nothing left.

    Letters of earlier versions have the request id of their caller, which may contain the person's name even if the
    letter has only other people's memories. So the request ids of all letters are removed.
    """
    erased, after, removed = set(ids), UUID(at) if at else NIL, 0
    while True:
        with step_transaction(tenant_id, erasure, "letters") as tx:
            letters = references.letters(tx, tenant_id, after)
            for letter in letters:
                redacted = _without(erasure, erased, letter)
                header = strip_caller_ids(letter.header, keep_trace=not redacted.removed)
                if redacted.removed:
                    references.rewrite(tx, tenant_id, letter.letter_id, header, redacted.payload)
                    removed += 1
                elif header != letter.header:
                    references.rewrite(tx, tenant_id, letter.letter_id, header, letter.payload)
            if removed:
                key = tombstones.digest_key(tx, tenant_id, os.urandom(32))
                digests = {
                    "thread": digest(key, "thread", dead_letter_redaction.placeholder_thread(erasure.erasure_id))
                }
                tombstones.add(tx, tenant_id, erasure.erasure_id, digests, erasure.cut or "0-0")
            failpoints.trigger("erasing.before_commit")
        if len(letters) < references.LETTERS:
            return StepProgress(None, removed)
        after = letters[-1].letter_id
        if time.monotonic() >= until:
            return StepProgress(str(after), removed)


def _without(
    erasure: Erasure, erased: set[UUID], each: references.LetterContent
) -> dead_letter_redaction.RedactedLetter:
    scope = dead_letter_redaction.RedactionScope(erasure.erasure_id, erasure.scope, erased, erasure.cut or "0-0")
    return dead_letter_redaction.redact_letter(scope, each.position, each.header, each.payload)


# --- Cold segments ---


def _find_segments(tenant_id: UUID, _erasure: Erasure, memory_ids: Sequence[UUID]) -> StepCount:
    with database.tenant(tenant_id) as tx:
        segments = {str(segment_id) for segment_id in references.segments_by_memory(tx, tenant_id, memory_ids).values()}
    return StepCount(len(segments), {"segments": sorted(segments)} if segments else {})


def _erase_segments(tenant_id: UUID, erasure: Erasure, _ids: Sequence[UUID], _at: str, _until: float) -> StepProgress:
    """Only record the step: deleting memories destroys their records' keys, and the nightly run rewrites segments."""
    with step_transaction(tenant_id, erasure, "segments"):
        [step] = [step for step in erasure.plan or () if step["step"] == "segments"]
        return StepProgress(None, step["found"] - step.get("earlier", 0))


# --- Memories ---


def _find_memories(tenant_id: UUID, erasure: Erasure, memory_ids: Sequence[UUID]) -> StepCount:
    with database.tenant(tenant_id) as tx:
        tables = residue.by_id(tx, tenant_id, memory_ids)
        count = max(tables["memories"], len(requests.ids(tx, tenant_id, erasure)))
    return StepCount(count, {"tables": tables})


def _erase_memories(tenant_id: UUID, erasure: Erasure, ids: Sequence[UUID], at: str, until: float) -> StepProgress:
    """Delete memories with all their dependent rows; memories under a legal hold are retained."""
    removed, position = 0, int(at or 0)
    while position < len(ids):
        with step_transaction(tenant_id, erasure, "memories") as tx:
            existing = requests.lock_rows(tx, tenant_id, ids[position : position + ROWS])
            held_ids = holds.list_by_memory(tx, tenant_id, existing)
            erasable = [memory_id for memory_id in existing if memory_id not in held_ids]
            states.lock(tx, tenant_id, erasable)
            if erasable:
                with tenant_counts.track_changes(tx, tenant_id, erasable):
                    row_deletion.remove(tx, tenant_id, erasable)
                tier_moves.add(tx, tenant_id, {("deleted", "erasure"): len(erasable)})
                details = {"erasures": len(erasable)} if erasure.is_batch else {"erasure": str(erasure.erasure_id)}
                audit.append(tx, tenant_id, "memories_erased", ids=erasable, details=details)
            if gone := sorted(set(ids[position : position + ROWS]).difference(existing)):  # an earlier pass erased them
                wrapped_keys.remove_records(tx, tenant_id, cold_segments.delete_locations(tx, tenant_id, gone))
            failpoints.trigger("erasing.before_commit")
        removed += len(erasable)
        position += ROWS
        if time.monotonic() >= until:
            break
    queues.nudge(queues.EMBED_MEMORIES)
    return StepProgress(str(position) if position < len(ids) else None, removed)


# --- PCA bases of archived vectors ---


def _find_bases(tenant_id: UUID, erasure: Erasure, memory_ids: Sequence[UUID]) -> StepCount:
    with database.tenant(tenant_id) as tx:
        before = _gone_at(erasure) or database.now(tx)
        own_bases = pca_bases.list_incomplete(tx, tenant_id, before)
    return StepCount(len(own_bases) + len(_shared(tenant_id, memory_ids, before)))


def _erase_bases(tenant_id: UUID, erasure: Erasure, ids: Sequence[UUID], _at: str, until: float) -> StepProgress:
    """Refit bases that may contain erased vectors, and record that the others contain none (`pca_refit`)."""
    pca_refit.check_complete(tenant_id)
    with step_transaction(tenant_id, erasure, "bases") as tx:
        before = _gone_at(erasure) or database.now(tx)
        own_bases = pca_bases.list_incomplete(tx, tenant_id, before)
    is_done, removed = pca_refit.refit_own(tenant_id, own_bases, until)
    if is_done:
        is_done, shared_removed = pca_refit.refit_shared(tenant_id, _shared(tenant_id, ids, before), until)
        removed += shared_removed
    return StepProgress(None if is_done else "again", removed)


def _shared(tenant_id: UUID, memory_ids: Sequence[UUID], before: datetime) -> list[BasisInfo]:
    if not memory_ids:
        return []
    return pca_refit.list_spoilt_shared(tenant_id, min(map(extract_unix_ms, memory_ids)), before)


def _gone_at(erasure: Erasure) -> datetime | None:
    """Return the time at which the last memory was deleted; PCA bases computed later contain no erased vector."""
    erased_at = [step["at"] for step in erasure.executed if step["step"] == "memories"]
    return datetime.fromisoformat(erased_at[0]) if erased_at else None


# --- Finished jobs, released holds, recorded searches, and texts of operators ---


def _find_records(tenant_id: UUID, erasure: Erasure, memory_ids: Sequence[UUID]) -> StepCount:
    with database.tenant(tenant_id) as tx:
        counted = references.count_records(tx, tenant_id, names(erasure), memory_ids)
        kinds = {table: count for table, count in counted.items() if count}
        texts = len(retained_texts.find_named(tx, tenant_id, erasure))
        return StepCount(sum(kinds.values()) + texts, {"kinds": kinds} if kinds else {})


def _erase_records(tenant_id: UUID, erasure: Erasure, ids: Sequence[UUID], _at: str, _until: float) -> StepProgress:
    with step_transaction(tenant_id, erasure, "records") as tx:
        current = get_or_404(tx, tenant_id, erasure.erasure_id)
        texts = retained_texts.redact_named(tx, tenant_id, current)  # first, because holds lose the person's name next
        cleared = references.clear_records(tx, tenant_id, names(erasure), ids)
        if texts:
            redacted = current.texts_redacted + texts
            requests.set_fields(tx, tenant_id, erasure.erasure_id, texts_redacted=redacted)
        return StepProgress(None, cleared + texts)


# --- Notes ---


def _find_notes(tenant_id: UUID, _erasure: Erasure, memory_ids: Sequence[UUID]) -> StepCount:
    return StepCount(note_erasure.count_notes(tenant_id, memory_ids))


def _erase_notes(tenant_id: UUID, erasure: Erasure, ids: Sequence[UUID], _at: str, _until: float) -> StepProgress:
    """Remove the notes, edited ones too; notes of memories under a legal hold remain."""
    with step_transaction(tenant_id, erasure, "note_files") as tx:
        held_ids = holds.list_by_memory(tx, tenant_id, ids)
        erasable = [memory_id for memory_id in ids if memory_id not in held_ids]
        return StepProgress(None, note_erasure.remove_notes(tx, tenant_id, erasable))


# --- Keys ---


def _find_keys(tenant_id: UUID, erasure: Erasure, _ids: Sequence[UUID]) -> StepCount:
    subject = names(erasure).get("subject")
    if subject is None:
        return StepCount(0)
    with database.tenant(tenant_id) as tx:
        count = int(encryption_keys.has_key(tx, tenant_id, subject))
        is_left = bool(erasure.executed) and references.is_cold(tx, tenant_id, subject)
        return StepCount(0, retained=count) if is_left else StepCount(count)


def _erase_keys(tenant_id: UUID, erasure: Erasure, _ids: Sequence[UUID], _at: str, _until: float) -> StepProgress:
    """Destroy the subject's key, unless the subject still has cold records: memories under a legal hold or newer data.

    Erased records had a key each, which has already been destroyed.
    """
    subject = names(erasure).get("subject")
    with step_transaction(tenant_id, erasure, "keys") as tx:
        if subject is None or references.is_cold(tx, tenant_id, subject):
            return StepProgress(None, 0)
        return StepProgress(None, encryption_keys.destroy_keys(tx, tenant_id, subject))


# --- Exports ---


def _find_exports(tenant_id: UUID, erasure: Erasure, memory_ids: Sequence[UUID]) -> StepCount:
    with database.tenant(tenant_id) as tx:
        return StepCount(export_requests.count_forgettable(tx, tenant_id, erasure.scope.subject, memory_ids))


def _erase_exports(tenant_id: UUID, erasure: Erasure, ids: Sequence[UUID], _at: str, _until: float) -> StepProgress:
    with step_transaction(tenant_id, erasure, "exports"):
        pass  # the export store isn't called within a transaction; removing an export twice is harmless
    return StepProgress(None, export_requests.forget(tenant_id, erasure.scope.subject, ids))


# --- Files that are being imported ---


def _find_imports(tenant_id: UUID, erasure: Erasure, memory_ids: Sequence[UUID]) -> StepCount:
    return StepCount(len(import_files.find_covered(tenant_id, erasure.scope, memory_ids, erasure.started_at)))


def _erase_imports(tenant_id: UUID, erasure: Erasure, ids: Sequence[UUID], _at: str, _until: float) -> StepProgress:
    """End the imports whose file has records in the scope; what they have stored is erased with the memories."""
    with step_transaction(tenant_id, erasure, "imports"):
        pass  # the files' store isn't called within a transaction; ending an import twice is harmless
    return StepProgress(None, import_files.erase_covered(tenant_id, erasure.scope, ids, erasure.started_at))


def name_store(step: str) -> str:
    """Return the name, as shown in reports and letters, of the store that a step clears."""
    return ENGLISH.text(f"stores.{step}.name")


STEPS: Final[dict[str, ErasureStep]] = {
    "exports": ErasureStep(name_store("exports"), "deleted", _find_exports, _erase_exports),
    "imports": ErasureStep(
        name_store("imports"), "deleted, including the other records of each file", _find_imports, _erase_imports
    ),
    "letters": ErasureStep(
        name_store("letters"),
        "rewritten without the erased data, or deleted if nothing else remains",
        _find_letters,
        _erase_letters,
    ),
    "note_files": ErasureStep(name_store("note_files"), "deleted", _find_notes, _erase_notes),
    "segments": ErasureStep(
        name_store("segments"),
        "unreadable immediately, because the records' keys are destroyed; a nightly run rewrites the files without "
        "the records",
        _find_segments,
        _erase_segments,
    ),
    "memories": ErasureStep(name_store("memories"), "deleted", _find_memories, _erase_memories),
    "bases": ErasureStep(name_store("bases"), "computed again without the erased vectors", _find_bases, _erase_bases),
    "records": ErasureStep(
        name_store("records"),
        ENGLISH.text("stores.records.method"),
        _find_records,
        _erase_records,
    ),
    "keys": ErasureStep(name_store("keys"), "destroyed", _find_keys, _erase_keys),
}
