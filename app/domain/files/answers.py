"""Texts with which the memory tool answers; models know these wordings from the tool's reference implementation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from app.domain.files.paths import ROOT

LEVELS: Final = 2
LINES_MAX: Final = 999_999
_WIDTH: Final = len(str(LINES_MAX))
_AROUND: Final = 2
"""Lines of a snippet before and after the change."""
_UNITS: Final = "BKMG"


class Answer(NamedTuple):
    """A result of the tool: its text, and whether the command failed."""

    content: str
    is_error: bool = False


class Edited(NamedTuple):
    """A changed text and the answer to its change."""

    text: str
    answer: Answer


def missing(path: str) -> Answer:
    """Return the answer to reading or editing a path that doesn't exist."""
    return Answer(f"The path {path} does not exist. Please provide a valid path.", is_error=True)


def gone(path: str) -> Answer:
    """Return the answer to deleting or renaming a path that doesn't exist."""
    return Answer(f"The path {path} does not exist", is_error=True)


def not_a_file(path: str) -> Answer:
    """Return the answer to editing a directory."""
    return Answer(f"The path {path} is not a file.", is_error=True)


def not_a_directory(path: str) -> Answer:
    """Return the answer to creating or renaming something at a path below a file, or below the renamed path."""
    return Answer(f"The path {path} is not a directory.", is_error=True)


def created(path: str) -> Answer:
    """Return the answer to the creation of a file."""
    return Answer(f"File created successfully at: {path}")


def exists(path: str) -> Answer:
    """Return the answer to the creation of a file that exists."""
    return Answer(f"File {path} already exists", is_error=True)


def deleted(path: str) -> Answer:
    """Return the answer to a deletion."""
    return Answer(f"Successfully deleted {path}")


def renamed(old: str, new: str) -> Answer:
    """Return the answer to a renaming."""
    return Answer(f"Successfully renamed {old} to {new}")


def occupied(path: str) -> Answer:
    """Return the answer to a renaming onto a path that exists."""
    return Answer(f"The destination {path} already exists", is_error=True)


def root_refused(verb: str) -> Answer:
    """Return the answer to deleting or renaming the root."""
    return Answer(f"Cannot {verb} the {ROOT} directory itself", is_error=True)


def show_directory(path: str, sizes: Mapping[str, int]) -> Answer:
    """Return the listing of a directory, two levels deep, without items whose name begins with a dot.

    Args:
        path: The directory.
        sizes: Size in bytes by path, of all files below the directory. A directory has the size of its visible files.
    """
    totals: dict[str, int] = {path: 0}
    for file, size in sizes.items():
        segments = file[len(path) + 1 :].split("/")
        if any(segment.startswith(".") for segment in segments):
            continue
        totals[path] += size
        for depth in range(1, min(len(segments), LEVELS) + 1):
            is_file = depth == len(segments)
            shown = "/".join([path, *segments[:depth]]) + ("" if is_file else "/")
            totals[shown] = totals.get(shown, 0) + size
    lines = [f"{_size(total)}\t{shown}" for shown, total in sorted(totals.items(), key=lambda item: _order(item[0]))]
    head = f"Here're the files and directories up to {LEVELS} levels deep in {path}, excluding hidden items:"
    return Answer("\n".join([head, *lines]))


def _order(shown: str) -> list[str]:
    """Sort by name within each directory, and a directory before its contents."""
    return shown.rstrip("/").split("/")


def _size(size: int) -> str:
    power = min((size.bit_length() - 1) // 10, len(_UNITS) - 1) if size else 0
    value = size / 1024**power
    return f"{value:.0f}{_UNITS[power]}" if value == int(value) else f"{value:.1f}{_UNITS[power]}"


def show_file(path: str, text: str, view_range: Sequence[int] | None = None) -> Answer:
    """Return a file's lines with their numbers, optionally only from the first to the second number of the range.

    Args:
        path: The file.
        text: Its text.
        view_range: Numbers of the first and the last line, from 1; -1 for the end of the file.
    """
    lines = text.split("\n")
    first, last = (1, -1) if view_range is None else view_range
    start = max(1, first) - 1
    shown = lines[start : len(lines) if last == -1 else max(last, 0)]
    return Answer(f"Here's the content of {path} with line numbers:\n{_numbered(shown, start + 1)}")


def _numbered(lines: Sequence[str], first: int) -> str:
    return "\n".join(f"{number:>{_WIDTH}}\t{line}" for number, line in enumerate(lines, first))


def replace_string(path: str, text: str, old: str, new: str) -> Edited | Answer:
    """Replace the only occurrence of a string.

    Returns:
        The new text with the answer; only the answer if the string doesn't occur exactly once.
    """
    places = _find_all(text, old)
    if not places:
        return Answer(
            f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.", is_error=True
        )
    lines = [text.count("\n", 0, place) + 1 for place in places]
    if len(places) > 1:
        numbers = ", ".join(map(str, lines))
        return Answer(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {numbers}. "
            "Please ensure it is unique",
            is_error=True,
        )
    changed = text[: places[0]] + new + text[places[0] + len(old) :]
    start = max(lines[0] - 1 - _AROUND, 0)
    snippet = _numbered(changed.split("\n")[start : lines[0] + _AROUND], start + 1)
    said = f"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{snippet}"
    return Edited(changed, Answer(said))


def _find_all(text: str, wanted: str) -> list[int]:
    places, place = [], text.find(wanted)
    while place >= 0:
        places.append(place)
        place = text.find(wanted, place + 1)
    return places


def insert_lines(path: str, text: str, after: int, added: str) -> Edited | Answer:
    """Insert lines after the line with this number; 0 inserts them at the beginning. The text then ends in a newline.

    Returns:
        The new text with the answer; only an answer if there is no such line.
    """
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if not 0 <= after <= len(lines):
        said = f"Invalid `insert_line` parameter: {after}. It should be within the range [0, {len(lines)}]."
        return Answer(said, is_error=True)
    lines.insert(after, added.rstrip("\n"))
    changed = "\n".join(lines)
    answer = Answer(f"The file {path} has been edited.")
    return Edited(changed if changed.endswith("\n") else f"{changed}\n", answer)
