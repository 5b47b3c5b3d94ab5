"""Show on the terminal the reason for which a command waits, after a short delay."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO, TypeVar

from app.cli.core import tables
from app.domain.formatting import format_duration

AFTER_SECONDS: Final = 0.7
"""Delay before the line appears; most calls are faster."""
EVERY_SECONDS: Final = 1.0
_CLEAR: Final = "\r\x1b[K"
Item = TypeVar("Item")


class WaitingLine:
    """Line on standard error with a text that may change, and the time since the start."""

    _bars = 0
    """Number of progress bars on the terminal. While there are any, no line is shown: a bar shows the same."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._began = time.monotonic()
        self._ended = threading.Event()

    def retitle(self, text: str) -> None:
        """Change the text; the line shows it within a second."""
        self.text = text

    @classmethod
    @contextmanager
    def hidden(cls) -> Iterator[None]:
        """Show no lines while a progress bar is on the terminal."""
        cls._bars += 1
        try:
            yield
        finally:
            cls._bars -= 1

    @contextmanager
    def shown(self, after_seconds: float = AFTER_SECONDS) -> Iterator[None]:
        """Show the line from `after_seconds` on until the block ends."""
        stream = sys.stderr
        if self._bars or not stream.isatty():
            yield
            return
        thread = threading.Thread(target=self._draw, args=(stream, after_seconds), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _draw(self, stream: TextIO, after_seconds: float) -> None:
        if self._ended.wait(after_seconds):
            return
        while True:
            line = f"{self.text} … {format_duration(time.monotonic() - self._began)}"
            stream.write(f"{_CLEAR}{line[: tables.page_columns() - 1]}")
            stream.flush()
            if self._ended.wait(EVERY_SECONDS):
                break
        stream.write(_CLEAR)
        stream.flush()


@contextmanager
def waiting_for(text: str, *, after_seconds: float = AFTER_SECONDS) -> Iterator[WaitingLine]:
    """Show a text on the terminal while the block takes longer than a moment."""
    line = WaitingLine(text)
    with line.shown(after_seconds):
        yield line


def each_waiting_for(items: Iterable[Item], text: str) -> Iterator[Item]:
    """Yield the items, and show a text while the next one is computed."""
    rest = iter(items)
    while True:
        with waiting_for(text):
            try:
                item = next(rest)
            except StopIteration:
                return
        yield item
