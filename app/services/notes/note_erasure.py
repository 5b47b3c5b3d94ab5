"""Find and remove the notes of erased and anonymised memories, edited and copied ones included."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from app.errors import Misconfigured
from app.notes_folder import find_folder
from app.settings import settings
from app.store.core import database
from app.store.notes import notes


def count_notes(tenant_id: UUID, memory_ids: Sequence[UUID]) -> int:
    """Return the number of the memories' files in the tenant's folder or of recorded notes, whichever is larger.

    A file belongs to a memory by its name, or by the id in its front matter, so that renamed copies count too.
    """
    with database.tenant(tenant_id) as tx:
        recorded = notes.count(tx, tenant_id, memory_ids)
    return max(recorded, len(_list_files(tenant_id, memory_ids)))


def remove_notes(tx: database.Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> int:
    """Remove the files of these memories and forget their notes; return the number of notes as `count_notes` does.

    Raises:
        Misconfigured: Notes of these memories were written to a folder that isn't configured any more.
    """
    base, recorded = settings().notes_dir, notes.count(tx, tenant_id, memory_ids)
    if base is None:
        if recorded:
            raise Misconfigured("notes of erased memories can't be removed: set EBBING_NOTES_DIR to their folder again")
        return 0
    removed = 0
    with find_folder(base, str(tenant_id)) as folder:
        if folder is not None:
            removed = folder.remove(_list_files(tenant_id, memory_ids))
    notes.forget(tx, tenant_id, memory_ids)
    return max(recorded, removed)


def count_notes_of_tenant(tenant_id: UUID) -> int:
    """Return the number of files in the tenant's folder or of its recorded notes, whichever is larger."""
    with database.tenant(tenant_id) as tx:
        recorded = notes.count_all(tx, tenant_id)
    base = settings().notes_dir
    if base is None:
        return recorded
    with find_folder(base, str(tenant_id)) as folder:
        return max(recorded, 0 if folder is None else sum(1 for _ in folder.entries(by_content=True)))


def remove_notes_of_tenant(tenant_id: UUID, planned: int) -> int:
    """Remove the files of all memories in the tenant's folder; return their number.

    Args:
        planned: Number of notes when the deletion was requested.

    Raises:
        Misconfigured: There were notes, and their folder isn't configured any more.
    """
    base = settings().notes_dir
    if base is None:
        if planned:
            raise Misconfigured("notes of the tenant can't be removed: set EBBING_NOTES_DIR to their folder again")
        return 0
    with find_folder(base, str(tenant_id)) as folder:
        return 0 if folder is None else folder.remove([entry.name for entry in folder.entries(by_content=True)])


def replace_note(tenant_id: UUID, memory_id: UUID) -> None:
    """Remove the note of an anonymised memory, if there is one; the next run writes it from the new text.

    The caller has marked the note as expired (`notes.expire`), so that a run removes it if this process dies.
    """
    with database.tenant(tenant_id) as tx:
        if notes.count(tx, tenant_id, [memory_id]):
            remove_notes(tx, tenant_id, [memory_id])


def _list_files(tenant_id: UUID, memory_ids: Collection[UUID]) -> list[str]:
    base, wanted = settings().notes_dir, set(memory_ids)
    if base is None or not wanted:
        return []
    with find_folder(base, str(tenant_id)) as folder:
        if folder is None:
            return []
        return [entry.name for entry in folder.entries(by_content=True) if entry.memory_id in wanted]
