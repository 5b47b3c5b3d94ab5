"""A file that exceeds its length limit has two responsibilities."""

from __future__ import annotations

from pathlib import Path

from ops.checks.file_lengths import too_full, too_long


def test_no_file_is_too_long() -> None:
    assert too_long() == []


def test_a_file_at_the_limit_is_named(tmp_path: Path) -> None:
    (tmp_path / "app" / "domain").mkdir(parents=True)
    (tmp_path / "app" / "domain" / "fits.py").write_text("x = 1\n" * 399)
    (tmp_path / "app" / "domain" / "over.py").write_text("x = 1\n" * 400)

    assert too_long(tmp_path) == ["app/domain/over.py: 400 lines, fewer than 400 allowed; split it"]


def test_no_folder_is_too_full() -> None:
    assert too_full() == []


def test_a_folder_with_too_many_files_is_named(tmp_path: Path) -> None:
    (tmp_path / "app" / "domain").mkdir(parents=True)
    for number in range(21):
        (tmp_path / "app" / "domain" / f"{number}.html").touch()
    assert too_full(tmp_path) == ["app/domain: 21 files, at most 20 allowed; make folders of its parts"]
    (tmp_path / "app" / "domain" / "0.html").unlink()
    assert too_full(tmp_path) == []
