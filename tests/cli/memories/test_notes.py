"""`ebbing notes`, `ebbing promote` and `ebbing demote`."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from app.domain.notes.note import PromotedMemory, note_name, render_note
from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Request, Stub, problem

AT = datetime(2026, 11, 20, tzinfo=UTC)
ONE, TWO, THREE = (UUID(int=number) for number in (1, 2, 3))
BASE = PromotedMemory(*(ONE, "green tea", None, None, (), AT, None, AT, "uses", 0.9))


class Notes:
    """A server with notes of promoted memories."""

    def __init__(self, api: Stub) -> None:
        self.texts: dict[UUID, str | None] = {ONE: "green tea", TWO: "black tea"}
        self.registered: list[dict[str, str]] = []
        api.replies["GET /v1/notes"] = self.page
        api.replies["POST /v1/notes/copies"] = self.register

    def page(self, _: Request) -> Reply:
        found = [
            {
                "id": str(memory_id),
                "name": note_name(memory_id),
                "content": text and render_note(replace(BASE, memory_id=memory_id, text=text)).decode(),
            }
            for memory_id, text in sorted(self.texts.items())
        ]
        return Reply(200, {"notes": found, "next_cursor": None})

    def register(self, asked: Request) -> Reply:
        self.registered.append(asked.json)
        return Reply(204)


@pytest.fixture
def notes(api: Stub) -> Notes:
    return Notes(api)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_notes_are_copied_and_the_next_run_writes_what_changed(cli: Cli, notes: Notes, folder: Path) -> None:
    assert cli("notes", "vault", "--name", "laptop").out == "vault: 2 notes; 2 written\n"
    vault = folder / "vault"
    assert names(vault) == [".ebbing-notes.json", note_name(ONE), note_name(TWO)]
    assert cli("notes", "vault").out == "vault: 2 notes; 2 unchanged\n"
    notes.texts |= {ONE: "white tea", TWO: None}
    done = json.loads(cli("notes", "vault", "--json").out)
    assert {name: done[name] for name in ("written", "unchanged", "removed", "edited")} == {
        "written": 1,
        "unchanged": 0,
        "removed": 0,
        "edited": [],
    }
    assert "white tea" in (vault / note_name(ONE)).read_text()
    assert (vault / note_name(TWO)).exists(), "in cold storage: the copy remains"
    assert notes.registered[0]["name"] == "laptop"
    assert len({each["copy_id"] for each in notes.registered}) == 1


def test_notes_of_erased_memories_are_removed_edited_ones_and_copies_too(cli: Cli, notes: Notes, folder: Path) -> None:
    notes.texts[THREE] = "coffee"
    cli("notes", "vault")
    vault = folder / "vault"
    (vault / "copy.md").write_bytes((vault / note_name(ONE)).read_bytes())
    (vault / note_name(TWO)).write_text("edited")
    (vault / "mine.md").write_text("not ours")
    notes.texts = {THREE: "coffee"}
    assert cli("notes", "vault").out == "vault: 1 note; 1 unchanged, 2 removed\n"
    assert names(vault) == [".ebbing-notes.json", note_name(THREE), "mine.md"]


def test_an_edited_note_is_named_and_left(cli: Cli, api: Stub, notes: Notes, folder: Path) -> None:
    cli("notes", "vault")
    edited = folder / "vault" / note_name(ONE)
    edited.write_text("edited")
    done = cli("notes", "vault")
    assert (done.out, f"{note_name(ONE)} was edited by hand" in done.err) == (
        *("vault: 1 note; 1 unchanged, 1 edited by hand\n", True),
    )
    del notes.texts[ONE]
    api.replies[f"GET /v1/memories/{ONE}"] = Reply(200, {"id": str(ONE)})
    assert "1 edited by hand" in cli("notes", "vault").out, "demoted, not erased"
    api.replies[f"GET /v1/memories/{ONE}"] = Reply(
        500, problem(500, "internal")
    )  # a 503 would be repeated for a minute
    assert cli("notes", "vault").code != 0
    assert edited.read_text() == "edited"
    api.replies[f"GET /v1/memories/{ONE}"] = Reply(404, problem(404, "not-found"))
    assert "1 removed" in cli("notes", "vault").out
    assert not edited.exists()


def test_a_folder_that_is_a_link_or_has_a_foreign_manifest_is_refused(cli: Cli, notes: Notes, folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "linked").symlink_to(folder / "real")
    assert "symbolic link" in cli("notes", "linked").err
    (folder / "real" / ".ebbing-notes.json").write_text("[]")
    assert "can't be read" in cli("notes", "real").err
    assert names(folder / "real") == [".ebbing-notes.json"]


def test_promote_and_demote_say_what_they_did(cli: Cli, api: Stub) -> None:
    promoted = {"id": "m1", "promoted": {"at": AT.isoformat(), "for": "manual", "strength": 0.9, "note": None}}
    api.replies["POST /v1/memories/m1/promote"] = Reply(200, promoted)
    api.replies["POST /v1/memories/m1/demote"] = Reply(200, {"id": "m1", "promoted": None})
    assert cli("promote", "m1", "--force").out == "m1 is promoted (manual)\n"
    assert api.asked[-1].json == {"force": True}
    assert cli("demote", "m1").out == "m1 isn't promoted\n"
    api.replies["POST /v1/memories/m1/promote"] = Reply(409, problem(409, "conflict", detail="0 uses are too few"))
    refused = cli("promote", "m1")
    assert (refused.code != 0, "0 uses are too few" in refused.err) == (True, True)
