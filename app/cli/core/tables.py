"""Lay out tables and lists of fields within the width of the terminal, without importing rich's renderer."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

PIPE_COLUMNS: Final = 120
"""Width of tables in files and pipes, if neither COLUMNS nor a terminal on a standard stream gives the width."""
LEAST_COLUMNS: Final = 40
GAPS: Final = ("  ", " ")
"""Gaps between columns, widest first; the first with which the table fits is used."""
RULE: Final = "─"


def page_columns() -> int:
    """Return the width for tables: the value of COLUMNS, or the terminal's width, or `PIPE_COLUMNS`.

    In a pipe such as `ebbing jobs | less`, standard error and standard input usually still belong to the terminal.
    """
    with suppress(KeyError, ValueError):
        return max(int(os.environ["COLUMNS"]), LEAST_COLUMNS)
    for stream in (sys.__stdout__, sys.__stderr__, sys.__stdin__):
        with suppress(OSError, ValueError, AttributeError):
            if columns := os.get_terminal_size(stream.fileno()).columns:  # type: ignore[union-attr]  # suppressed
                return max(columns, LEAST_COLUMNS)
    return PIPE_COLUMNS


def lay_out(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = (), width: int
) -> Iterator[str]:
    """Yield the lines of a table that is at most `width` wide.

    Cells are wrapped between words where needed; words, such as ids, stay whole. If the table doesn't fit even then,
    each row becomes a block with one line per column instead.
    """
    cells = [*zip(columns, *rows, strict=True)]
    natural = [max(map(cell_width, column)) for column in cells]
    least = [max(map(_longest_word, column)) for column in cells]
    gaps = [gap for gap in GAPS if sum(least) + len(gap) * (len(columns) - 1) <= width]
    if not gaps:
        yield from _blocks(columns, rows, width)
        return
    widths = _shrink(natural, least, width - len(gaps[0]) * (len(columns) - 1))
    is_right = [name in right for name in columns]
    yield from _row(columns, widths, is_right, gaps[0])
    yield RULE * (sum(widths) + len(gaps[0]) * (len(columns) - 1))
    for row in rows:
        yield from _row(row, widths, is_right, gaps[0])


def wrap(text: str, width: int) -> list[str]:
    """Wrap a text between words to at most `width` columns; a longer word is split over several lines."""
    if cell_width(text) <= width:
        return [text]
    lines, line = [], ""
    for word in text.split(" "):
        rest = word
        if line and cell_width(line) + 1 + cell_width(rest) <= width:
            line += f" {rest}"
            continue
        if line:
            lines.append(line)
        while cell_width(rest) > width:
            head = _head(rest, width)
            lines.append(head)
            rest = rest[len(head) :]
        line = rest
    return [*lines, line]


def fields(shown: Sequence[tuple[str, str]], name_width: int, width: int) -> Iterator[str]:
    """Yield lines with a name and a value each; values are wrapped and aligned."""
    for name, value in shown:
        first, *more = wrap(value, max(width - name_width, LEAST_COLUMNS // 2))
        yield f"{_pad(name, name_width)}{first}".rstrip()
        for line in more:
            yield f"{'':<{name_width}}{line}"


def cell_width(text: str) -> int:
    """Return the number of terminal columns that a text takes; East Asian characters and emoji take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _longest_word(text: str) -> int:
    return max(map(cell_width, text.split(" ")))


def _head(word: str, width: int) -> str:
    """Return the longest beginning of a word that fits, at least one character."""
    end = 1
    while end < len(word) and cell_width(word[: end + 1]) <= width:
        end += 1
    return word[:end]


def _shrink(natural: Sequence[int], least: Sequence[int], available: int) -> list[int]:
    """Reduce the widest columns until their sum fits; none becomes narrower than its longest word."""
    widths = list(natural)
    while sum(widths) > available:
        place = max(range(len(widths)), key=lambda index: (widths[index] > least[index], widths[index]))
        widths[place] -= 1
    return widths


def _row(row: Sequence[str], widths: Sequence[int], is_right: Sequence[bool], gap: str) -> Iterator[str]:
    wrapped = [wrap(cell, width) for cell, width in zip(row, widths, strict=True)]
    for place in range(max(map(len, wrapped))):
        line = [
            _pad(lines[place] if place < len(lines) else "", width, right=right)
            for lines, width, right in zip(wrapped, widths, is_right, strict=True)
        ]
        yield gap.join(line).rstrip()


def _blocks(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    name_width = max(map(cell_width, columns)) + len(GAPS[0])
    for place, row in enumerate(rows):
        if place:
            yield ""
        yield from fields([(name, cell) for name, cell in zip(columns, row, strict=True) if cell], name_width, width)


def _pad(text: str, width: int, *, right: bool = False) -> str:
    space = " " * (width - cell_width(text))
    return space + text if right else text + space
