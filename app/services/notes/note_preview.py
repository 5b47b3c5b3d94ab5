"""List what a run would do with the notes of promoted memories, without writing anything."""

from __future__ import annotations

import time
from collections import Counter
from datetime import datetime
from typing import Final
from uuid import UUID

from app.domain.notes import note
from app.errors import Conflict
from app.notes_folder import NotesFolder, find_folder
from app.services.notes.note_run import NO_FOLDER, ROWS
from app.services.tiers.dry_run import SECONDS, PredictedMove, PreviewPage
from app.settings import settings
from app.store.core import database
from app.store.enrichment.work_queue import NIL
from app.store.notes import notes

_MISSING: Final = "missing"
_WHY: Final = {
    "missing": "the memory has no note",
    "outdated": "the memory, its links or its sources have changed",
    "edited": "the note was edited by hand, so it isn't overwritten",
    "demoted": "the memory isn't promoted",
    "gone": "the memory is deleted",
}


def preview_notes(tenant_id: UUID, _as_of: datetime | None, after: UUID | None, limit: int) -> PreviewPage:
    """Return a page of notes that a run would write or remove, and of edited notes.

    In each entry, `before` is the state of the note, `after` what a run does with it, and `rule` the reason.

    Args:
        after: Last id of the previous page.
        limit: Maximum number of notes on a page; a page whose search takes longer than `SECONDS` has fewer.

    Raises:
        Conflict: `EBBING_NOTES_DIR` isn't set, so no notes are written.
    """
    base = settings().notes_dir
    if base is None:
        raise Conflict(NO_FOLDER)
    until, after = time.monotonic() + SECONDS, after or NIL
    found: list[PredictedMove] = []
    counts = Counter(dict.fromkeys(("looked_at", "written", "removed", "edited"), 0))
    with find_folder(base, str(tenant_id)) as folder:
        while True:
            examined, page, last = _preview_slice(tenant_id, folder, after)
            if len(page) > limit - len(found):
                page = page[: limit - len(found)]
                last = page[-1].memory_id
            found += page
            counts["looked_at"] += examined
            counts.update(each.after for each in page)
            if last is None or len(found) == limit or time.monotonic() >= until:
                return PreviewPage(found, dict(counts), last)
            after = last


def _preview_slice(
    tenant_id: UUID, folder: NotesFolder | None, after: UUID
) -> tuple[int, list[PredictedMove], UUID | None]:
    """Return the number of promoted memories in a slice of ids, what happens to the notes, and the slice's last id."""
    files = set() if folder is None else {each.memory_id for each in folder.entries() if not each.is_temporary}
    with database.tenant(tenant_id) as tx:
        page = notes.list_promoted(tx, tenant_id, after, ROWS)
        last = page[-1].memory.memory_id if page else None
        between = sorted(memory_id for memory_id in files if after < memory_id and (last is None or memory_id <= last))
        unwanted = notes.find_unwanted(tx, tenant_id, between)
    moves = []
    for each in page:
        memory_id = each.memory.memory_id
        if each.is_cold:
            continue
        content = None if folder is None else folder.read(note.note_name(memory_id))
        must_go = each.is_listed and each.digest is None
        state = note.compare(content, note.render_note(each.memory), may_replace=must_go)
        if state != "equal":
            before = _MISSING if content is None else state
            result = "edited" if state == "edited" else "written"
            moves.append(PredictedMove(memory_id, before, result, before, _WHY[before]))
    gone = (*unwanted.gone, *unwanted.hidden)
    moves += [PredictedMove(memory_id, "written", "removed", "gone", _WHY["gone"]) for memory_id in gone]
    for memory_id in unwanted.demoted:
        content = None if folder is None else folder.read(note.note_name(memory_id))
        is_edited = content is not None and not note.is_unedited(content)
        rule, result = ("edited", "edited") if is_edited else ("demoted", "removed")
        moves.append(PredictedMove(memory_id, "edited" if is_edited else "written", result, rule, _WHY[rule]))
    return len(page), sorted(moves, key=lambda move: move.memory_id), last
