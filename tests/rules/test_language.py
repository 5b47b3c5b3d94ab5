"""The patterns of plain technical English that a program can check."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.checks.language import check_file, find_files

FINE = '''"""Delete the stream entry after the commit."""

LIMIT = 3
"""Maximum number of attempts; the next worker continues."""


def delete_entry() -> str:
    """Return the id of the entry; raise `KeyError` otherwise."""
    return "somebody goes on, else anew"  # data, not prose
'''


def check(tmp_path: Path, name: str, text: str) -> list[str]:
    path = tmp_path / name
    path.write_text(text)
    return check_file(path, tmp_path)


def test_the_texts_of_this_project_have_no_finding() -> None:
    assert [line for path in find_files() for line in check_file(path)] == []


def test_code_and_data_are_no_prose(tmp_path: Path) -> None:
    assert check(tmp_path, "fine.py", FINE) == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('"""What an entry is."""', "docstring that begins with a clause"),
        ('A = 1\n"""How long it takes."""', "docstring that begins with a clause"),
        ('def of() -> None:\n    """Return the quota."""', "name without an object"),
        ('"""Delete an entry; the next worker goes on."""', "household word"),
        ("A = 1  # the limit lies at 3", "household word"),
        ('A = dict(help="Fetch the vectors anew.")', "household word"),
        ('"""Delete what it is made of."""', "clause without a noun"),
        ('"""Return the id if there is one, else None."""', "'else' as a joint"),
    ],
)
def test_a_text_that_breaks_a_rule_is_named_with_its_place(tmp_path: Path, text: str, kind: str) -> None:
    [found] = check(tmp_path, "broken.py", text)
    assert found.startswith("broken.py:")
    assert f": {kind}: " in found


def test_documents_and_templates_are_read_without_examples_and_tags(tmp_path: Path) -> None:
    text = "Fine.\n```\nsomebody goes on\n```\n{{ nevertheless }} <b title='anew'>`whoever`</b>\nIt is told.\n"
    assert check(tmp_path, "page.md", text) == ["page.md:6: household word: It is told."]
    assert check(tmp_path, "page.html", "<p>Somebody asked.</p>") == ["page.html:1: household word: Somebody asked."]
