"""The run that writes notes: incremental, robust against crashes and edits, and removing what must go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from app.domain.notes.note import is_unedited, note_name
from app.errors import Conflict
from app.notes_folder import FOLDER_MODE
from app.services.erasure import requests
from app.services.memories import manual_promotion, memories
from app.services.notes import note_preview, note_run
from app.services.privacy import anonymisation
from app.services.storage import lookup
from app.store.core import database
from app.store.memories import links
from app.store.memories.links import LinkKey
from app.store.memories.memories import StoredMemory
from app.store.privacy import holds
from tests.service import Service, Tenant


class Vault:
    """A tenant with promoted memories and a folder for notes."""

    def __init__(self, service: Service, base: Path) -> None:
        self.service, self.base = service, base
        service.configure(notes_dir=str(base))
        self.tenant: Tenant = service.tenant()
        self.tenant_id = self.tenant.tenant_id

    @property
    def folder(self) -> Path:
        return self.base / str(self.tenant_id)

    def remember(self, *texts: str | dict[str, Any]) -> list[UUID]:
        """Store and promote memories."""
        ids = self.service.send(self.tenant_id, *texts)
        self.service.work()
        for memory_id in ids:
            manual_promotion.promote(self.tenant_id, memory_id, "key", force=True)
        return ids

    def run(self) -> Counter[str]:
        counts, state = Counter[str](), dict[str, Any]()
        while True:
            step = note_run.run_slice(self.tenant_id, None, state, time.monotonic())
            counts.update(step.counts)
            state = step.state
            if step.finished:
                return +counts

    def file(self, memory_id: UUID) -> Path:
        return self.folder / note_name(memory_id)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def vault(service: Service, tmp_path: Path) -> Vault:
    return Vault(service, tmp_path / "notes")


def test_001_promoted_memories_are_written_as_notes_with_a_pointer(vault: Vault) -> None:
    """Seed 001, promotion: written as a Markdown note, marked, and retained with a pointer to it."""
    first, second = vault.remember({"text": "green tea", "subject": "ann", "tags": ["drinks"]}, "black tea")
    [other] = vault.service.send(vault.tenant_id, "not promoted")
    vault.service.work()
    with database.tenant(vault.tenant_id) as tx:
        links.upsert_links(
            tx, vault.tenant_id, {LinkKey(first, second, "relates"): 1, LinkKey(first, other, "about"): 1}
        )
    assert vault.run() == {"written": 2}
    assert vault.names() == sorted([note_name(first), note_name(second)])
    text = vault.file(first).read_text()
    assert f"- relates: [[{second}]]" in text
    assert str(other) not in text, "not promoted, so it has no note"
    assert f"- relates (from there): [[{first}]]" in vault.file(second).read_text()
    assert 'subject: "ann"' in text
    assert "strength: " in text
    found = lookup.get(vault.tenant_id, first)
    assert isinstance(found, StoredMemory)
    assert found.note == f"{vault.tenant_id}/{note_name(first)}"
    assert vault.folder.stat().st_mode & 0o777 == FOLDER_MODE


def test_a_second_run_writes_only_what_changed(vault: Vault) -> None:
    first, second = vault.remember("green tea", "black tea")
    vault.run()
    before = {memory_id: vault.file(memory_id).stat().st_mtime_ns for memory_id in (first, second)}
    assert vault.run() == {"unchanged": 2}
    memories.edit_memory(vault.tenant_id, first, {"text": "white tea"})
    assert vault.run() == {"written": 1, "unchanged": 1}
    assert "white tea" in vault.file(first).read_text()
    assert vault.file(second).stat().st_mtime_ns == before[second]
    vault.file(second).unlink()
    assert vault.run() == {"written": 1, "unchanged": 1}, "a lost note is written again"


def test_an_edited_note_is_reported_and_never_overwritten(vault: Vault) -> None:
    [memory_id] = vault.remember("green tea")
    vault.run()
    mine = vault.file(memory_id).read_text().replace("green", "my own")
    vault.file(memory_id).write_text(mine)
    memories.edit_memory(vault.tenant_id, memory_id, {"text": "white tea"})
    assert vault.run() == {"edited": 1}
    found = note_preview.preview_notes(vault.tenant_id, None, None, 10)
    assert [(move.before, move.after, move.rule) for move in found.moves] == [("edited", "edited", "edited")]
    manual_promotion.demote(vault.tenant_id, memory_id, "key")
    assert vault.run() == {"edited": 1}, "the memory still exists"
    assert vault.file(memory_id).read_text() == mine
    memories.delete(vault.tenant_id, memory_id)
    assert vault.run() == {"removed": 1}
    assert vault.names() == []


def test_notes_go_with_demotion_and_deletion_and_come_back_with_a_promotion(vault: Vault) -> None:
    first, second = vault.remember("green tea", "black tea")
    vault.run()
    manual_promotion.demote(vault.tenant_id, first, "key")
    erasure = memories.delete(vault.tenant_id, second)
    queued = vault.service.one("SELECT count(*) FROM jobs WHERE kind = 'notes' AND status = 'queued'")
    assert queued == 1, "one job for all changes, which doesn't wait for the night"
    found = note_preview.preview_notes(vault.tenant_id, None, None, 10)
    assert sorted((move.after, move.rule) for move in found.moves) == [("removed", "demoted"), ("removed", "gone")]
    assert vault.run() == {"removed": 2}
    assert vault.names() == []
    manual_promotion.promote(vault.tenant_id, first, "key", force=True)
    requests.cancel(vault.tenant_id, erasure.erasure_id, "key")
    assert vault.run() == {"written": 2}, "a restored memory has its note again"


def test_the_note_of_a_held_memory_stays(vault: Vault) -> None:
    [memory_id] = vault.remember({"text": "green tea", "subject": "ann"})
    vault.run()
    vault.service.rows(
        "INSERT INTO holds (tenant_id, hold_id, subject, reason, placed_by) "
        "VALUES (%s, gen_random_uuid(), 'ann', 'case 17', 'key')",
        vault.tenant_id,
    )
    with database.tenant(vault.tenant_id) as tx:
        assert holds.list_by_memory(tx, vault.tenant_id, [memory_id])
    manual_promotion.demote(vault.tenant_id, memory_id, "key")
    assert vault.run() == {}
    assert vault.names() == [note_name(memory_id)]
    vault.service.rows("UPDATE holds SET released_at = now()")
    assert vault.run() == {"removed": 1}


def test_anonymisation_replaces_the_note_even_if_it_was_edited(vault: Vault) -> None:
    [memory_id] = vault.remember({"text": "Ann drinks tea", "subject": "Ann"})
    vault.run()
    vault.file(memory_id).write_text("Ann, edited")
    anonymisation.anonymise(vault.tenant_id, memory_id, "key")
    assert vault.names() == [], "at once, not with the next run"
    assert vault.run() == {"written": 1}
    assert "Ann" not in vault.file(memory_id).read_text()


def test_a_death_before_the_note_of_an_anonymised_memory_is_removed_is_made_good(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    [memory_id] = vault.remember({"text": "Ann drinks tea", "subject": "Ann"})
    vault.run()
    vault.file(memory_id).write_text("Ann, edited")
    monkeypatch.setattr("app.services.notes.note_erasure.replace_note", lambda *_: None)
    anonymisation.anonymise(vault.tenant_id, memory_id, "key")
    assert vault.run() == {"written": 1}
    assert "Ann" not in vault.file(memory_id).read_text()


def test_a_change_while_notes_are_written_keeps_the_old_text_out(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    edited, deleted, calm = vault.remember("the old words", "a lost note", "calm")

    def meddle(name: str) -> None:
        if name == "notes.written":
            monkeypatch.undo()
            vault.service.configure(notes_dir=str(vault.base))
            memories.edit_memory(vault.tenant_id, edited, {"text": "the new words"})
            memories.delete(vault.tenant_id, deleted)

    monkeypatch.setattr("app.failpoints.trigger", meddle)
    note_run.run_slice(vault.tenant_id, None, {}, 0)
    assert vault.names() == [note_name(calm)], "no note, and no temporary file"
    vault.run()
    assert vault.names() == sorted([note_name(calm), note_name(edited)])
    assert "the new words" in vault.file(edited).read_text()


def test_leftovers_of_a_crash_are_removed(vault: Vault) -> None:
    [memory_id] = vault.remember("green tea")
    vault.run()
    fresh, stale = (vault.folder / f".{memory_id}.{digit * 16}.tmp" for digit in "ab")
    for path in (fresh, stale):
        path.write_text("half")
    os.utime(stale, (0, 0))
    vault.run()
    assert vault.names() == sorted([fresh.name, note_name(memory_id)]), "the fresh one may be another worker's"


def test_without_a_folder_nothing_is_written(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    step = note_run.run_slice(tenant_id, None, {}, 0)
    assert (step.finished, step.notes) == (True, (note_run.NO_FOLDER,))
    with pytest.raises(Conflict, match="EBBING_NOTES_DIR"):
        note_preview.preview_notes(tenant_id, None, None, 10)


def test_a_large_vault_is_written_and_cleaned_page_by_page(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(note_run, "ROWS", 2)
    monkeypatch.setattr(note_preview, "ROWS", 2)
    ids = vault.remember(*(f"memory {place}" for place in range(5)))
    first = note_preview.preview_notes(vault.tenant_id, None, None, 3)
    rest = note_preview.preview_notes(vault.tenant_id, None, first.following, 3)
    assert sorted(move.memory_id for move in (*first.moves, *rest.moves)) == sorted(ids)
    assert {(move.before, move.after) for move in first.moves} == {("missing", "written")}
    assert vault.run() == {"written": 5}
    for memory_id in ids[:4]:
        manual_promotion.demote(vault.tenant_id, memory_id, "key")
    assert vault.run() == {"unchanged": 1, "removed": 4}
    assert vault.names() == [note_name(ids[4])]


RUN = """
import sys
from uuid import UUID
from app.services.notes import note_run
note_run.run_slice(UUID(sys.argv[1]), None, {}, 1e12)
"""


@pytest.mark.slow
@pytest.mark.parametrize("failpoint", ["notes.written", "notes.renamed"])
def test_a_kill_in_the_middle_leaves_no_half_note(vault: Vault, failpoint: str) -> None:
    ids = vault.remember(*(f"memory {place} " + "words " * 400 for place in range(20)))
    variables = {
        **os.environ,
        "EBBING_DATABASE_URL": vault.service.database_url,
        "EBBING_REDIS_URL": vault.service.redis_url,
        "EBBING_NOTES_DIR": str(vault.base),
        "EBBING_FAILPOINTS": failpoint,
    }
    killed = subprocess.run([sys.executable, "-c", RUN, str(vault.tenant_id)], env=variables, timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL
    notes = [path for path in vault.folder.iterdir() if path.suffix == ".md"]
    assert len(notes) == (20 if failpoint == "notes.renamed" else 0)
    assert all(is_unedited(path.read_bytes()) for path in notes)
    assert vault.run() == ({"unchanged": 20} if failpoint == "notes.renamed" else {"written": 20})
    assert {path.name for path in vault.folder.iterdir() if path.suffix == ".md"} == {note_name(each) for each in ids}
    assert vault.service.one("SELECT count(*) FROM notes") == 20
