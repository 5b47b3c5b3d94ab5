"""The folder of notes: no symbolic link is followed, modes are private, and no file is ever half written."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from uuid import UUID

import pytest

from app.domain.notes.note import note_name
from app.notes_folder import NotesFolderFailed, find_folder, open_folder

ONE, TWO = UUID(int=1), UUID(int=2)


def write(base: Path, name: str | None = "tenant", content: bytes = b"text") -> None:
    with open_folder(base, name) as folder:
        folder.publish(folder.write_temporary({ONE: content}))


def test_files_and_folders_are_private_and_nothing_else_is_left(tmp_path: Path) -> None:
    base = tmp_path / "vault" / "notes"
    write(base)
    [file] = (base / "tenant").iterdir()
    assert (file.name, file.read_bytes()) == (note_name(ONE), b"text")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (base, base / "tenant", file)]
    assert modes == [0o700, 0o700, 0o600]


def test_no_symbolic_link_is_followed(tmp_path: Path) -> None:
    outside, base = tmp_path / "outside", tmp_path / "notes"
    outside.mkdir()
    base.mkdir()
    (base / "tenant").symlink_to(outside)
    with pytest.raises(NotesFolderFailed, match="symbolic link"):
        write(base)
    (tmp_path / "linked").symlink_to(outside)
    with pytest.raises(NotesFolderFailed, match="symbolic link"):
        write(tmp_path / "linked", None)
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    (outside / note_name(ONE)).symlink_to(secret)
    with open_folder(outside) as folder:
        assert folder.read(note_name(ONE)) == b"", "a link reads as a file that isn't ours"
        folder.publish(folder.write_temporary({ONE: b"text"}))
    assert (secret.read_bytes(), (outside / note_name(ONE)).read_bytes()) == (b"secret", b"text")


def test_what_is_no_regular_file_is_read_as_foreign(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / note_name(ONE))
    (tmp_path / note_name(TWO)).mkdir()
    with open_folder(tmp_path) as folder:
        assert folder.read(note_name(ONE)) == b""
        assert folder.read(note_name(TWO)) == b""
        assert folder.read("missing") is None
        assert [entry.memory_id for entry in folder.entries()] == [ONE]


def test_copies_under_another_name_are_found_by_their_content(tmp_path: Path) -> None:
    (tmp_path / "copy of a note.md").write_text(f"---\nid: {ONE}\n---\n")
    (tmp_path / "other.md").write_text("---\nid: x\n---\n")
    (tmp_path / f".{TWO}.0123456789abcdef.tmp").write_text("half")
    with open_folder(tmp_path) as folder:
        assert [(each.memory_id, each.is_temporary) for each in folder.entries()] == [(TWO, True)]
        assert {each.memory_id for each in folder.entries(by_content=True)} == {ONE, TWO}
        assert folder.remove(["copy of a note.md", "missing"]) == 1


def test_a_folder_that_is_not_there_is_not_created_by_looking(tmp_path: Path) -> None:
    for base, name in ((tmp_path / "none", None), (tmp_path, "none")):
        with find_folder(base, name) as folder:
            assert folder is None
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    with open_folder(tmp_path) as folder:
        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(NotesFolderFailed, match="No space left"):
            folder.write_temporary({ONE: b"text", TWO: b"more"})
    assert list(tmp_path.iterdir()) == []
