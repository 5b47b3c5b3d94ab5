"""The readers, and the choice among them by the content of a path."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ops.recall.dataset import Conversation
from ops.recall.readers import beam, chats, lines, longmemeval
from ops.recall.readers.reader import Reader

# The order of trial. A folder with chats in folders is read as BEAM even if it contains files (topics.json).
READERS: Final = {each.name: each for each in (beam.READER, longmemeval.READER, chats.READER, lines.READER)}


def read(path: Path, name: str | None = None) -> Iterable[Conversation]:
    """Return the conversations of a dataset; some readers yield them one at a time.

    Args:
        path: A file or a folder.
        name: The reader's name; None chooses by the path's content.

    Raises:
        OSError: The path is unreadable.
        ValueError: No reader fits the path, or the content has another format.
    """
    return choose(path, name).read(path)


def choose(path: Path, name: str | None = None) -> Reader:
    """Return the reader of that name; without a name, the one that fits the path.

    Raises:
        OSError: The path is unreadable.
        ValueError: No reader fits; the message names the readers.
    """
    path.stat()  # raises an error for a missing path, whichever reader was requested
    if name is not None:
        return READERS[name]
    for reader in READERS.values():
        if reader.fits(path):
            return reader
    known = "; ".join(f"{reader.name} ({reader.shape})" for reader in READERS.values())
    raise ValueError(f"{path}: no reader fits. Name one with --reader: {known}")
