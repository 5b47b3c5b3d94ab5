"""Write, update and remove the notes of promoted memories below the operator's folder.

A run reads all promoted memories and writes only notes that differ. Then it lists the tenant's folder and removes the
notes of memories that are no longer promoted, or no longer exist. Both parts compare the folder with the database, so a
run corrects whatever an interrupted run has left.

A note is written under a temporary name first. It is renamed in a transaction that locks the memory's row and checks
that the memory is unchanged: an erasure or an edit that commits earlier prevents the note, and a later one finds it.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from app import failpoints
from app.domain.jobs import Job, Step
from app.domain.notes import note
from app.notes_folder import FolderEntry, NotesFolder, open_folder
from app.services.storage.memory_write import NOTES
from app.services.strength import rebase
from app.settings import settings
from app.store.core import database
from app.store.enrichment.work_queue import NIL
from app.store.notes import notes
from app.store.notes.notes import WrittenNote

KIND: Final = NOTES
ROWS: Final = 500
NO_FOLDER: Final = "no notes are written: EBBING_NOTES_DIR isn't set"
TEMPORARY_SECONDS: Final = 3600
"""Age from which a temporary file counts as left over by a crash."""


def run_job_slice(job: Job) -> Step:
    """Update a tenant's notes for `rebase.STEP_SECONDS`."""
    return run_slice(job.tenant_id, None, job.state, time.monotonic() + rebase.STEP_SECONDS)


def run_slice(tenant_id: UUID, _as_of: datetime | None, state: dict[str, Any], until: float) -> Step:
    """Continue a run: write page after page, then remove unwanted notes.

    Args:
        state: State returned by the previous step; empty at first.
        until: Deadline by the monotonic clock; at least one page is processed.
    """
    base = settings().notes_dir
    if base is None:
        return Step(0, state, finished=True, notes=(NO_FOLDER,))
    counts = Counter(dict.fromkeys(("written", "unchanged", "edited", "removed"), 0))
    after, is_cleaning = UUID(state.get("after", NIL.hex)), state.get("cleaning", False)
    with open_folder(base, str(tenant_id)) as folder:
        while True:
            process = _clean_page if is_cleaning else _write_page
            last = process(tenant_id, folder, after, counts)
            finished = is_cleaning and last is None
            is_cleaning, after = is_cleaning or last is None, last or NIL
            if finished or time.monotonic() >= until:
                next_state = {"after": after.hex, "cleaning": is_cleaning}
                return Step(counts.total(), next_state, finished, counts=dict(counts))


def _write_page(tenant_id: UUID, folder: NotesFolder, after: UUID, counts: Counter[str]) -> UUID | None:
    """Write the notes of a page of promoted memories; return the last memory, or None if there are no more."""
    with database.tenant(tenant_id) as tx:
        page = notes.list_promoted(tx, tenant_id, after, ROWS)
    if not page:
        return None
    outdated: dict[UUID, bytes] = {}
    adopted: dict[UUID, bytes] = {}
    for each in page:
        if each.is_cold:  # its row has only the first sentences: the note remains as it is
            continue
        memory_id = each.memory.memory_id
        content = note.render_note(each.memory)
        must_go = each.is_listed and each.digest is None
        match note.compare(folder.read(note.note_name(memory_id)), content, may_replace=must_go):
            case "equal":
                counts["unchanged"] += 1
                if each.digest != _digest(content):
                    adopted[memory_id] = content
            case "outdated":
                outdated[memory_id] = content
            case "edited":
                counts["edited"] += 1
    counts["written"] += _publish(tenant_id, folder, page, outdated, adopted)
    return page[-1].memory.memory_id


def _publish(
    tenant_id: UUID,
    folder: NotesFolder,
    page: Sequence[WrittenNote],
    outdated: Mapping[UUID, bytes],
    adopted: Mapping[UUID, bytes],
) -> int:
    """Write these notes, as far as their memories are still promoted and unchanged; return their number.

    Args:
        page: The memories as read before.
        outdated: Notes to write.
        adopted: Notes that are in the folder already, but not recorded.
    """
    if not outdated and not adopted:
        return 0
    read_at = {each.memory.memory_id: each.updated_at for each in page}
    temporary = folder.write_temporary(outdated) if outdated else {}
    try:
        failpoints.trigger("notes.written")
        with database.tenant(tenant_id) as tx:
            current = notes.lock_promoted(tx, tenant_id, [*outdated, *adopted])
            unchanged = {memory_id for memory_id, updated_at in current.items() if updated_at == read_at[memory_id]}
            chosen = {memory_id: name for memory_id, name in temporary.items() if memory_id in unchanged}
            if chosen:
                folder.publish(chosen)
            failpoints.trigger("notes.renamed")
            contents = {**outdated, **adopted}
            saved = {memory_id: _digest(contents[memory_id]) for memory_id in contents if memory_id in unchanged}
            notes.save(tx, tenant_id, saved)
    finally:
        folder.discard(temporary.values())
    return len(chosen)


def _clean_page(tenant_id: UUID, folder: NotesFolder, after: UUID, counts: Counter[str]) -> UUID | None:
    """Remove the unwanted notes of some memories; return the last memory, or None if there are no more."""
    files: dict[UUID, list[FolderEntry]] = {}
    for entry in folder.entries():
        files.setdefault(entry.memory_id, []).append(entry)
    with database.tenant(tenant_id) as tx:
        known = notes.list_known(tx, tenant_id, after, ROWS)
        ids = sorted({*known, *(memory_id for memory_id in files if memory_id > after)})[:ROWS]
        unwanted = notes.find_unwanted(tx, tenant_id, ids)
    if not ids:
        return None
    edited = {memory_id for memory_id in unwanted.demoted if _is_edited(folder, memory_id)}
    counts["edited"] += len(edited)
    forgotten = [*unwanted.gone, *(memory_id for memory_id in unwanted.demoted if memory_id not in edited)]
    leaving = [*forgotten, *unwanted.hidden]
    counts["removed"] += folder.remove(entry.name for memory_id in leaving for entry in files.get(memory_id, ()))
    staying = set(ids).difference(leaving)
    now = time.time()
    folder.remove(
        entry.name
        for memory_id in staying
        for entry in files.get(memory_id, ())
        if entry.is_temporary and folder.age_seconds(entry.name, now) > TEMPORARY_SECONDS
    )
    if leaving:
        with database.tenant(tenant_id) as tx:
            notes.forget(tx, tenant_id, forgotten)
            notes.expire(tx, tenant_id, unwanted.hidden)
    return ids[-1]


def _is_edited(folder: NotesFolder, memory_id: UUID) -> bool:
    content = folder.read(note.note_name(memory_id))
    return content is not None and not note.is_unedited(content)


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
