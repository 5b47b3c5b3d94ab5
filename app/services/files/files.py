"""Run the commands of the memory tool on memories: a file is the memory whose external id is the file's path.

Files have a tag that the policy protects from decay by default. An edit keeps the former text as a memory that the file
supersedes. Deleted files are hidden at once with their former texts, and erased after the grace period; legal holds
prevent edits, renames and deletions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from app.domain.files import answers
from app.domain.files.answers import Answer, Edited
from app.domain.files.commands import (
    CreateCommand,
    DeleteCommand,
    InsertCommand,
    RenameCommand,
    ReplaceCommand,
    ViewCommand,
    check_text,
)
from app.domain.files.paths import ROOT, list_parents, read_path
from app.domain.ingest.sources import Writer
from app.domain.privacy.legal_hold import IDS_MAX
from app.errors import Conflict, NotFound
from app.services.erasure import deletion_of_many
from app.services.memories import memories
from app.services.memories.memories import TextChanged
from app.services.storage.memory_write import memory_write
from app.store.core import database
from app.store.files import file_memories
from app.store.files.file_memories import PROTECTED_TAG, StoredFile
from app.store.memories import provenance
from app.store.memories.provenance import WriteTime

FILES_MAX: Final = 10_000
"""Maximum number of files that a directory shows."""
TRIES: Final = 3
_CHANGED: Final = "the file was changed at the same time: repeat the command"


def view(tenant_id: UUID, command: ViewCommand) -> Answer:
    """Show a file or a directory.

    Raises:
        Invalid: The path is refused.
        Conflict: The file is in cold storage.
    """
    path = read_path(command.path)
    with database.tenant(tenant_id) as tx:
        files = file_memories.list_below(tx, tenant_id, path, FILES_MAX + 1)
        if files and files[0].path == path:
            text = _read(tx, tenant_id, files[0])
            return answers.missing(path) if text is None else answers.show_file(path, text, command.view_range)
    if not files and path != ROOT:
        return answers.missing(path)
    if len(files) > FILES_MAX:
        return Answer(f"The directory {path} contains more than {FILES_MAX:,} files.", is_error=True)
    return answers.show_directory(path, {file.path: file.size for file in files})


def check_new(tenant_id: UUID, command: CreateCommand) -> tuple[dict[str, Any] | None, Answer]:
    """Return the memory to store for a new file, and the answer once it is stored; without a memory, only the answer.

    Raises:
        Invalid: The path or the text is refused.
    """
    path = read_path(command.path)
    check_text(command.file_text, "file_text")
    with database.tenant(tenant_id) as tx:
        refusal = _refusal_of_new(tx, tenant_id, path, answers.exists)
    if refusal is not None:
        return None, refusal
    memory = {"text": command.file_text, "external_id": path, "tags": [PROTECTED_TAG], "kind": "semantic"}
    return memory, answers.created(path)


def _refusal_of_new(
    tx: database.Transaction, tenant_id: UUID, path: str, taken: Callable[[str], Answer]
) -> Answer | None:
    if path == ROOT or file_memories.list_below(tx, tenant_id, path, 1):
        return taken(path)
    file = file_memories.find_first(tx, tenant_id, list_parents(path))
    return None if file is None else answers.not_a_directory(file)


def replace_string(tenant_id: UUID, command: ReplaceCommand, writer: Writer) -> Answer:
    """Replace a string in a file; arguments and errors as for `_edit`."""
    path = read_path(command.path)
    return _edit(
        tenant_id,
        path,
        writer,
        "new_str",
        lambda text: answers.replace_string(path, text, command.old_str, command.new_str),
    )


def insert_lines(tenant_id: UUID, command: InsertCommand, writer: Writer) -> Answer:
    """Insert lines into a file; arguments and errors as for `_edit`."""
    path = read_path(command.path)
    return _edit(
        tenant_id,
        path,
        writer,
        "insert_text",
        lambda text: answers.insert_lines(path, text, command.insert_line, command.insert_text),
    )


def _edit(tenant_id: UUID, path: str, writer: Writer, field: str, change: Callable[[str], Edited | Answer]) -> Answer:
    """Change a file's text; a concurrent change is taken into account, not overwritten.

    The former text is kept as a version: a memory that the file supersedes, which searches leave out and which fades.

    Args:
        writer: The caller's API key and its source.

    Raises:
        Invalid: The new text is refused; the error names `field`.
        Conflict: The file is in cold storage or under a legal hold, or was changed concurrently in every attempt.
    """
    for _ in range(TRIES):
        with database.tenant(tenant_id) as tx:
            files = file_memories.list_below(tx, tenant_id, path, 1)
            if not files or files[0].path != path:
                return answers.not_a_file(path) if files or path == ROOT else answers.missing(path)
            text = _read(tx, tenant_id, files[0])
        edited = answers.missing(path) if text is None else change(text)
        if isinstance(edited, Answer):
            return edited
        check_text(edited.text, field)
        if edited.text == text:
            return edited.answer
        try:
            reworded = {"text": edited.text}
            memories.edit_memory(tenant_id, files[0].memory_id, reworded, writer, if_text=text, keeps_version=True)
        except TextChanged:
            continue
        except NotFound:
            return answers.missing(path)
        return edited.answer
    raise Conflict(_CHANGED)


def delete(tenant_id: UUID, command: DeleteCommand, actor: str) -> Answer:
    """Delete a file, or all files of a directory.

    Args:
        actor: Id of the caller's API key.

    Raises:
        Invalid: The path is refused.
        Conflict: A file is under a legal hold; nothing is deleted.
    """
    path = read_path(command.path)
    if path == ROOT:
        return answers.root_refused("delete")
    with database.tenant(tenant_id) as tx:
        files = file_memories.list_below(tx, tenant_id, path, IDS_MAX + 1)
    if not files:
        return answers.gone(path)
    if len(files) > IDS_MAX:
        return _too_many(path, "delete")
    if len(files) == 1:
        memories.delete(tenant_id, files[0].memory_id, actor)
        return answers.deleted(path)
    listed: list[UUID] = []

    def list_after(tx: database.Transaction, after: UUID) -> list[UUID]:
        if not listed:
            found = [file.memory_id for file in file_memories.list_below(tx, tenant_id, path, IDS_MAX)]
            listed.extend(sorted({*found, *file_memories.list_versions(tx, tenant_id, found)}))
        return [memory_id for memory_id in listed if memory_id > after][:IDS_MAX]

    deletion_of_many.delete_listed(tenant_id, actor, list_after)
    return answers.deleted(path)


def rename(tenant_id: UUID, command: RenameCommand, writer: Writer) -> Answer:
    """Rename a file, or a directory with its files; the memories keep their ids, strength and history.

    A rename is a change by the writer: if the writer's source is lower than a memory's, it replaces the memory's.

    Raises:
        Invalid: A path is refused.
        Conflict: A file is under a legal hold, or a file was created at the new path at the same time.
    """
    old, new = read_path(command.old_path, "old_path"), read_path(command.new_path, "new_path")
    if old == ROOT:
        return answers.root_refused("rename")
    if new.startswith(f"{old}/"):
        return answers.not_a_directory(old)
    with memory_write(tenant_id, "content") as write:
        tx = write.tx
        files = file_memories.list_below(tx, tenant_id, old, IDS_MAX + 1)
        if not files:
            return answers.gone(old)
        if len(files) > IDS_MAX:
            return _too_many(old, "rename")
        refusal = _refusal_of_new(tx, tenant_id, new, answers.occupied)
        if refusal is not None:
            return refusal
        ids = file_memories.lock(tx, tenant_id, [file.memory_id for file in files])
        write.check_free(ids)
        paths = {file.memory_id: read_path(new + file.path[len(old) :], "new_path") for file in files}
        file_memories.rename(tx, tenant_id, {memory_id: paths[memory_id] for memory_id in ids})
        write.sources_changed(provenance.lower_sources(tx, tenant_id, ids, writer.source))
        now = database.now(tx)
        provenance.record_writes(tx, tenant_id, [WriteTime(memory_id, writer.key_id, now) for memory_id in ids])
        write.changed(ids)
    return answers.renamed(old, new)


def _too_many(path: str, verb: str) -> Answer:
    said = f"The directory {path} contains more than {IDS_MAX:,} files: {verb} its directories one by one."
    return Answer(said, is_error=True)


def _read(tx: database.Transaction, tenant_id: UUID, file: StoredFile) -> str | None:
    if file.tier == "cold":
        raise Conflict("this file is in cold storage: restore it first, by POST /v1/memories/{id}/restore")
    return file_memories.read_text(tx, tenant_id, file.memory_id)
