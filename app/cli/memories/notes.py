"""`ebbing notes`: copy the notes of promoted memories to a folder of this machine, such as a vault of Obsidian."""

from __future__ import annotations

import json
import platform
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import UUID, uuid4

import typer

from app.cli.core.calls import item_path
from app.cli.core.connection import find_connection
from app.cli.core.errors import Code, CommandFailure
from app.cli.core.output import AsJson, Url, count_of, examples, print_result

if TYPE_CHECKING:
    from app.cli.core.client import Api
    from app.notes_folder import NotesFolder

PATIENCE_SECONDS: Final = 60.0
PAGE: Final = 200
MANIFEST: Final = ".ebbing-notes.json"
_NOT_FOUND: Final = 404
_WORDS: Final = {"written": "written", "unchanged": "unchanged", "removed": "removed", "edited": "edited by hand"}

router = typer.Typer()


@router.command(epilog=examples("ebbing notes ~/vault/ebbing", "ebbing notes notes --name work-laptop --json"))
def notes(
    directory: Annotated[
        Path, typer.Argument(help="Folder for the notes; created if it doesn't exist.", metavar="DIR", file_okay=False)
    ],
    *,
    name: Annotated[
        str | None,
        typer.Option("--name", help="Name of this machine in erasure reports. Default: its host name."),
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Write the notes of promoted memories to a folder, update changed notes, and remove notes of other memories.

    Run it again after an erasure: it removes the notes of erased memories, edited ones too. Other edited notes are
    listed and not overwritten. Erasure reports name this machine as a recipient.
    """
    from app.cli.core.client import Api
    from app.notes_folder import NotesFolderFailed, open_folder

    try:
        with open_folder(directory) as folder, Api(find_connection(url), patience_seconds=PATIENCE_SECONDS) as api:
            done = _copy(api, folder, name or platform.node() or "unnamed machine")
    except NotesFolderFailed as error:
        raise CommandFailure(str(error)) from None
    for edited in done["edited"]:
        typer.echo(f"{directory / edited} was edited by hand: it isn't overwritten", err=True)
    counts = {kind: len(done[kind]) if kind == "edited" else done[kind] for kind in _WORDS}
    told = ", ".join(f"{counts[kind]:,} {words}" for kind, words in _WORDS.items() if counts[kind])
    total = count_of(counts["written"] + counts["unchanged"], "note", "notes")
    print_result(done, f"{directory}: {total}" + (f"; {told}" if told else ""), as_json=as_json)


def _copy(api: Api, folder: NotesFolder, name: str) -> dict[str, Any]:
    """Copy all notes. Return how many were written, unchanged and removed, and the names of the edited files."""
    from app.cli.core.client import pages
    from app.domain.notes.note import compare

    copy_id, own = _read_manifest(folder)
    api.call("POST", "/v1/notes/copies", json={"copy_id": str(copy_id), "name": name}, safe=True)
    counts, edited = Counter(written=0, unchanged=0, removed=0), list[str]()
    promoted: set[UUID] = set()
    outdated: dict[UUID, bytes] = {}
    for found in pages(api, "/v1/notes", "notes", {"limit": PAGE}):
        memory_id = UUID(found["id"])
        promoted.add(memory_id)
        if found["content"] is None:
            continue
        content = found["content"].encode()
        match compare(folder.read(f"{memory_id}.md"), content):
            case "equal":
                counts["unchanged"] += 1
            case "outdated":
                outdated[memory_id] = content
            case "edited":
                edited.append(f"{memory_id}.md")
        if len(outdated) == PAGE:
            counts["written"] += _write(folder, copy_id, own, outdated)
    counts["written"] += _write(folder, copy_id, own, outdated)
    own |= promoted & {entry.memory_id for entry in folder.entries()}
    leaving = []
    for memory_id in sorted(own - promoted):
        if _may_remove(api, folder, memory_id):
            leaving.append(memory_id)
        else:
            edited.append(f"{memory_id}.md")
    gone = set(leaving)
    files = [entry for entry in folder.entries(by_content=True) if entry.memory_id in gone]
    removed = {entry.memory_id for entry in files if not entry.is_temporary}
    folder.remove(entry.name for entry in files)
    counts["removed"] = len(removed)
    _write_manifest(folder, copy_id, own - gone)
    return {"copy_id": str(copy_id), **counts, "edited": edited}


def _write(folder: NotesFolder, copy_id: UUID, own: set[UUID], outdated: dict[UUID, bytes]) -> int:
    """Write the outdated notes and empty `outdated`; return their number.

    They are added to the manifest first, so that an interruption leaves no note unlisted.
    """
    if not outdated:
        return 0
    own |= outdated.keys()
    _write_manifest(folder, copy_id, own)
    folder.publish(folder.write_temporary(outdated))
    written = len(outdated)
    outdated.clear()
    return written


def _may_remove(api: Api, folder: NotesFolder, memory_id: UUID) -> bool:
    """Return whether to remove the note of an unpromoted memory; False if it was edited and the memory still exists."""
    from app.cli.core.client import ApiRefusal
    from app.domain.notes.note import is_unedited

    content = folder.read(f"{memory_id}.md")
    if content is None or is_unedited(content):
        return True
    try:
        api.call("GET", item_path("/v1/memories", str(memory_id)))
    except ApiRefusal as refusal:
        if refusal.status != _NOT_FOUND:
            raise
        return True
    return False


def _read_manifest(folder: NotesFolder) -> tuple[UUID, set[UUID]]:
    """Return the id of the folder, and the memories whose notes this command has written into it."""
    content = folder.read(MANIFEST)
    if content is None:
        return uuid4(), set()
    try:
        found = json.loads(content)
        return UUID(found["copy_id"]), {UUID(memory_id) for memory_id in found["notes"]}
    except (ValueError, KeyError, TypeError, AttributeError):
        reason = f"{MANIFEST} can't be read: remove it, and the notes beside it, or choose another folder"
        raise CommandFailure(reason, Code.USAGE) from None


def _write_manifest(folder: NotesFolder, copy_id: UUID, own: set[UUID]) -> None:
    content = json.dumps({"copy_id": str(copy_id), "notes": sorted(map(str, own))}, indent=0)
    folder.replace(MANIFEST, content.encode())
