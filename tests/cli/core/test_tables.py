"""Tables and fields stay within the width of the terminal; ids stay whole."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cli.core import tables
from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub

ID = "01998a5e-0b7c-7d51-8a3c-2d5f0c9f4e11"


def lines(columns: Sequence[str], *rows: Sequence[str], width: int = 60, right: Sequence[str] = ()) -> list[str]:
    return list(tables.lay_out(columns, rows, right=right, width=width))


def test_a_narrow_table_is_a_line_per_row() -> None:
    assert lines(["name", "count"], ["active", "2,068"], ["cold", "7"], right=["count"]) == [
        "name    count",
        "─────────────",
        "active  2,068",
        "cold        7",
    ]


def test_long_text_is_wrapped_between_words_and_ids_stay_whole() -> None:
    text = "the quick brown fox jumps over the lazy dog and over the next one"
    shown = lines(["id", "text"], [ID, text])
    assert all(len(line) <= 60 for line in shown)
    assert any(line.startswith(ID) for line in shown)
    assert " ".join(line[len(ID) :].strip() for line in shown[2:]) == text


def test_what_cannot_fit_becomes_a_block_per_row_without_empty_fields() -> None:
    shown = lines(["id", "other", "note"], [ID, ID, ""], [ID, ID, "late"])
    assert shown == [f"id     {ID}", f"other  {ID}", "", f"id     {ID}", f"other  {ID}", "note   late"]


def test_wide_characters_take_two_columns() -> None:
    assert lines(["what", "n"], ["日本", "1"], ["ab", "2"])[2:] == ["日本  1", "ab    2"]


@given(
    st.integers(min_value=40, max_value=120),
    st.lists(st.lists(st.text("ab日 ", max_size=90), min_size=3, max_size=3), min_size=1, max_size=4),
)
def test_no_line_is_wider_than_the_terminal(width: int, rows: list[list[str]]) -> None:
    for line in tables.lay_out(["one", "two", "three"], rows, width=width):
        assert tables.cell_width(line) <= width


@given(st.text("ab日 ", max_size=90), st.integers(min_value=2, max_value=20))
def test_wrapping_loses_nothing(text: str, width: int) -> None:
    wrapped = tables.wrap(text, width)
    assert "".join(wrapped).replace(" ", "") == text.replace(" ", "")
    assert all(tables.cell_width(line) <= width for line in wrapped)


def test_columns_come_from_the_environment_then_from_a_terminal_that_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "77")
    assert tables.page_columns() == 77
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((132, 40)))
    assert tables.page_columns() == 132

    def no_terminal(_: object) -> None:
        raise OSError

    monkeypatch.setattr(os, "get_terminal_size", no_terminal)
    assert tables.page_columns() == tables.PIPE_COLUMNS
    monkeypatch.setattr(sys, "__stdout__", None)  # as in a process without standard streams
    assert tables.page_columns() == tables.PIPE_COLUMNS


def test_a_policy_fits_into_a_pipe(cli: Cli, api: Stub) -> None:
    words = {"recall": {"words": [f"word-{number}" for number in range(90)]}}
    body: dict[str, Any] = {"version": 1, "status": "in force", "effective_at": None, "policy": words}
    api.replies["GET /v1/policy"] = Reply(200, body)
    done = cli("policy", "show", COLUMNS="80")
    assert "word-89" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
