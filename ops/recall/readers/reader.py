"""Reader: the code for one published dataset format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ops.recall.dataset import Conversation


@dataclass(frozen=True, slots=True)
class Reader:
    """The reader of one dataset format.

    Attributes:
        name: The value of `--reader`.
        shape: A short description of the format, for help and errors.
        fits: Returns True if an existing path has this format, from names and first bytes only.
        read: Returns the conversations. Raises OSError or ValueError, which names the file and the position in it.
    """

    name: str
    shape: str
    fits: Callable[[Path], bool]
    read: Callable[[Path], Iterable[Conversation]]


def first_sign(start: bytes) -> bytes:
    """Return the first byte that is neither white space nor a byte order mark."""
    return start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
