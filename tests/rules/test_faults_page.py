"""The page of faults and attacks has every row, and each test that it names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ops" / "faults.md").read_text()
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
STATEMENTS = 13


@cache
def functions(path: str) -> frozenset[str]:
    """Return the names of a file's test functions; empty if there is no such file."""
    file = ROOT / path
    tree = ast.parse(file.read_text()) if file.is_file() else ast.Module([], [])
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def rows(section: str) -> list[list[str]]:
    """Return the cells of a section's table, without its head."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| |")]
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if "statement | tests" not in line and "| # |" not in line
    ]


def test_each_named_test_exists() -> None:
    named = NAMED.findall(PAGE)
    assert len(named) > 100
    assert [f"{path}::{name}" for path, name in named if name not in functions(path)] == []
    assert len(re.findall(r"::\w+`", PAGE)) == len(named), "a test is written in another form"


def test_every_fault_and_check_has_one_row_with_a_test() -> None:
    for section, letter, count in (("Faults", "F", 28), ("Security checks", "C", 23)):
        found = rows(section)
        assert [row[0] for row in found] == [f"{letter}{number}" for number in range(1, count + 1)]
        assert all(len(row) == 6 and all(row) for row in found)
        assert [row[0] for row in found if not NAMED.search(row[5])] == []


def test_every_statement_that_must_stay_true_has_a_test() -> None:
    found = rows("What must stay true")
    assert len(found) == STATEMENTS
    assert [statement for statement, tests in found if not NAMED.search(tests)] == []


def test_every_defence_has_a_test() -> None:
    found = rows("Defences")
    assert [row[0] for row in found] == [str(number) for number in range(1, 13)]
    assert [row[0] for row in found if not NAMED.search(row[3])] == []
