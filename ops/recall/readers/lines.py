"""JSON lines, plain or compressed by xz: one conversation per line, in the format of `dataset.Conversation`."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import IO, Final

import msgspec

from ops.recall.dataset import Conversation
from ops.recall.readers.reader import Reader, first_sign

_START_BYTES: Final = 1024


def read(path: Path) -> list[Conversation]:
    """Return the conversations of a file.

    Raises:
        OSError: The file is unreadable.
        ValueError: A line is not a conversation; the message names the line.
    """
    try:
        with _open(path) as lines:
            return [_conversation(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    except (lzma.LZMAError, EOFError) as error:
        raise ValueError(f"{path}: {error}") from error


def fits(path: Path) -> bool:
    """Return True for an .xz file, and for a file that begins with an object unless its name ends in .json."""
    if not path.is_file():
        return False
    if path.suffix == ".xz":
        return True
    with path.open("rb") as file:
        return path.suffix != ".json" and first_sign(file.read(_START_BYTES)) == b"{"


READER: Final = Reader("lines", "JSON lines, one conversation per line, plain or .xz", fits, read)


def _open(path: Path) -> IO[bytes]:
    return lzma.open(path) if path.suffix == ".xz" else path.open("rb")


def _conversation(path: Path, number: int, line: bytes) -> Conversation:
    try:
        return msgspec.json.decode(line, type=Conversation)
    except (msgspec.DecodeError, ValueError) as error:
        raise ValueError(f"{path}, line {number}: {error}") from error
