"""Each acceptance criterion of privacy has a test marked with it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
POINTS = range(1, 21)


def points(node: ast.FunctionDef) -> Iterator[object]:
    """Return the criteria that a test is marked with."""
    for each in node.decorator_list:
        match each:
            case ast.Call(func=ast.Attribute(attr="acceptance"), args=[ast.Constant(value=point)]):
                yield point


def marked() -> dict[object, list[str]]:
    """Return tests by the criteria that they are marked with."""
    found: dict[object, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf8")
        if "mark.acceptance(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                for point in points(node):
                    assert node.name.startswith("test_"), f"{path}: {node.name} is no test"
                    found.setdefault(point, []).append(f"{path.relative_to(TESTS)}::{node.name}")
    return found


def test_each_point_has_a_test_and_there_are_no_others() -> None:
    assert set(marked()) == set(POINTS)


def test_the_page_tells_of_each() -> None:
    page = (TESTS.parent / "ops" / "privacy.md").read_text(encoding="utf8")
    rows = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")]
    assert [row for row in rows if row.isdigit()] == [str(point) for point in POINTS]
