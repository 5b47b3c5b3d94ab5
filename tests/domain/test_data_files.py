"""The word lists and tables of the domain are data files, which a wheel contains."""

from __future__ import annotations

from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from app.domain.data_files import read_lines, read_table

ROOT = Path(__file__).resolve().parents[2]


def test_the_wheel_contains_every_data_file_of_the_domain() -> None:
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "app" / "domain").rglob("*.txt")}
    files |= {str(path.relative_to(ROOT)) for path in (ROOT / "app" / "domain").rglob("*.toml")}
    assert "app/domain/salience/lexicon_english.toml" in files
    assert "app/domain/text/irregular_forms.txt" in files
    packed = {included.relative_path for included in WheelBuilder(str(ROOT)).recurse_included_files()}
    assert files - packed == set()


def test_a_data_file_that_is_missing_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"no\.toml"):
        read_table("app.domain.text", "no.toml")


def test_lines_are_read_as_utf_8_in_their_order() -> None:
    lines = read_lines("app.domain.text", "irregular_forms.txt")
    assert lines[0].split() == ["become", "became"]
    assert all(line == line.strip() and line for line in lines)
