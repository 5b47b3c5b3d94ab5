"""Notes in the erasure engine: removed with the memory, counted in the report, and searched for in verification."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.domain.notes.note import note_name
from app.domain.privacy.legal_hold import Scope
from app.errors import Misconfigured
from app.services.erasure import report, requests, tenant_deletion
from app.services.erasure.requests import ErasureOptions
from app.services.memories import memories
from app.services.notes import note_erasure
from app.store.core import database
from tests.service import Service
from tests.services.due_deletions import UNFINISHED, erased, worked
from tests.services.notes.test_note_run import Vault, vault

__all__ = ["vault"]


def erase(vault: Vault, subject: str) -> dict[str, Any]:
    """Erase a subject without a grace period, and return the report."""
    asked = requests.request(vault.tenant_id, ErasureOptions(Scope(subject=subject), "gdpr", 0), "key")
    vault.service.rows("UPDATE erasures SET erase_after = now()")
    vault.service.rows("UPDATE jobs SET not_before = now()")
    worked(vault.service, UNFINISHED)
    return report.read_report(vault.tenant_id, asked.erasure_id)


def row(found: dict[str, Any]) -> tuple[int, int, int]:
    [notes] = [each for each in found["stores"] if each["code"] == "note_files"]
    return notes["found"], notes["removed"], notes["left"]


def test_an_erasure_of_a_subject_removes_edited_notes_and_copies(vault: Vault) -> None:
    ann, edited, bob = vault.remember(
        {"text": "Ann drinks tea", "subject": "ann"},
        {"text": "Ann drinks milk", "subject": "ann"},
        {"text": "Bob drinks tea", "subject": "bob"},
    )
    vault.run()
    (vault.folder / "my copy.md").write_bytes(vault.file(ann).read_bytes())
    vault.file(edited).write_text("Ann, edited")
    (vault.folder / f".{ann}.0123456789abcdef.tmp").write_text("half a note about Ann")
    found = erase(vault, "ann")
    assert vault.names() == [note_name(bob)]
    assert (found["status"], found["counts"]["left"]) == ("verified", 0)
    found_before, removed, left = row(found)
    assert (found_before, left) == (removed, 0)


def test_the_report_counts_notes(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if a run has removed the files already, because the memories were hidden."""
    for subject, runs in (("ann", True), ("bob", False)):
        if not runs:
            monkeypatch.setattr("app.services.erasure.requests.queue_notes", lambda *_: None)
        vault.remember({"text": "drinks tea", "subject": subject}, {"text": "drinks milk", "subject": subject})
        vault.run()
        vault.service.rows("DELETE FROM jobs WHERE kind = 'notes'")
        assert row(erase(vault, subject)) == (2, 2, 0), subject
    assert vault.names() == []


def test_a_note_that_appears_later_is_residue(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.services.erasure.requests.queue_notes", lambda *_: None)
    [memory_id] = vault.remember({"text": "Ann drinks tea", "subject": "ann"})
    vault.run()
    vault.service.rows("DELETE FROM jobs WHERE kind = 'notes'")
    content = vault.file(memory_id).read_bytes()
    came_back: list[int] = []
    remove_notes = note_erasure.remove_notes

    def remove(*given: Any) -> int:
        removed = remove_notes(*given)
        if not came_back:
            came_back.append(vault.file(memory_id).write_bytes(content))
        return removed

    monkeypatch.setattr(note_erasure, "remove_notes", remove)
    found = erase(vault, "ann")
    assert (found["status"], vault.names()) == ("verified", [])
    assert came_back, "otherwise the test proves nothing"


def test_deletions_in_a_batch_have_their_own_counts(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.services.erasure.requests.queue_notes", lambda *_: None)
    first, second, other = vault.remember("one", "two", "three")
    vault.run()
    [loose] = vault.service.send(vault.tenant_id, "without a note")
    vault.service.work()
    deletions = [memories.delete(vault.tenant_id, memory_id) for memory_id in (first, second, loose)]
    erased(vault.tenant_id)
    reports = [report.read_report(vault.tenant_id, deletion.erasure_id) for deletion in deletions]
    assert [row(found) for found in reports] == [(1, 1, 0), (1, 1, 0), (0, 0, 0)]
    assert vault.names() == [note_name(other)]


def test_notes_in_a_folder_that_is_not_configured_any_more_stop_the_erasure(vault: Vault) -> None:
    [memory_id] = vault.remember("one")
    vault.run()
    vault.service.configure(notes_dir="")
    assert note_erasure.count_notes(vault.tenant_id, [memory_id]) == 1
    with database.tenant(vault.tenant_id) as tx, pytest.raises(Misconfigured, match="EBBING_NOTES_DIR"):
        note_erasure.remove_notes(tx, vault.tenant_id, [memory_id])


def test_without_notes_there_is_nothing_to_find(service: Service, tmp_path: Path) -> None:
    tenant_id = service.tenant().tenant_id
    assert note_erasure.count_notes(tenant_id, []) == 0
    service.configure(notes_dir=str(tmp_path / "none"))
    with database.tenant(tenant_id) as tx:
        assert note_erasure.remove_notes(tx, tenant_id, []) == 0
    assert not (tmp_path / "none").exists()


def test_the_deletion_of_a_tenant_removes_its_notes_and_those_of_no_other(vault: Vault) -> None:
    other = Vault(vault.service, vault.base)
    for each in (vault, other):
        each.remember("the red boat", "the blue boat")
        each.run()
    (vault.folder / "copy.md").write_bytes((vault.folder / vault.names()[0]).read_bytes())
    name = tenant_deletion.get(vault.tenant_id).tenant.name
    made = tenant_deletion.request(vault.tenant_id, name, "key", 0)
    worked(vault.service, UNFINISHED)
    done = tenant_deletion.get(vault.tenant_id)
    assert (done.tenant.deletion_id, done.tenant.status) == (made.tenant.deletion_id, "deleted")
    assert vault.names() == []
    assert len(other.names()) == 2
    report = tenant_deletion.read_report(vault.tenant_id)
    assert set(report["left"].values()) == {0}
