"""Serve notes of promoted memories to clients, and record the clients that copy them."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from app.domain.notes.note import render_note
from app.store.core import database
from app.store.core.paging import Page, page_of
from app.store.enrichment.work_queue import NIL
from app.store.notes import notes
from app.store.notes.notes import WrittenNote


class NoteText(NamedTuple):
    """A note; `content` is None if the memory is in cold storage, and clients then keep their copy of the note."""

    memory_id: UUID
    content: str | None


def list_notes(tenant_id: UUID, after: UUID | None, limit: int) -> Page[NoteText]:
    """Return a page of notes in order of their memories' ids, starting after `after`."""
    with database.tenant(tenant_id) as tx:
        page = notes.list_promoted(tx, tenant_id, after or NIL, limit)
    rows = [NoteText(each.memory.memory_id, _render(each)) for each in page]
    return page_of(rows, limit, lambda row: row.memory_id)


def _render(found: WrittenNote) -> str | None:
    return None if found.is_cold else render_note(found.memory).decode()


register_copy = database.in_tenant(notes.register_copy)
"""Record that a client copies the notes into a folder."""
