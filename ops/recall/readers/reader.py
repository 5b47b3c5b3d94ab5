"""A reader: the code for one published shape of dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ops.recall.dataset import Conversation


@dataclass(frozen=True, slots=True)
class Reader:
    """One shape of dataset.

    Attributes:
        name: The value of `--reader`.
        shape: The shape in a few words, for help and errors.
        fits: Tells whether a path that exists holds this shape; looks at names and first bytes only.
        read: Returns the conversations. Raises OSError or ValueError, which names the file and the place in it.
    """

    name: str
    shape: str
    fits: Callable[[Path], bool]
    read: Callable[[Path], Iterable[Conversation]]


def first_sign(start: bytes) -> bytes:
    """Return the first byte that is neither white space nor a byte order mark."""
    return start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
