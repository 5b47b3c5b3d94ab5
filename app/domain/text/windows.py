"""Windows of a long memory: parts of about equal length that have vectors of their own.

One vector of a long text is close to nothing in particular, so a single sentence of it isn't found. A search compares
the windows too, and a memory counts by its best one.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from app.domain.text.highlight import Span, sentences

WINDOW_SIZE: Final = 500
"""Characters of a window, about; a text of up to twice as many has no windows."""
WINDOWS_MAX: Final = 64
"""Windows of a memory at most: those of a text with more than `WINDOW_SIZE` times as many characters are longer."""
WINDOW_SHARE: Final = 0.9
"""Worth of a window's cosine, as a share of a whole memory's: it is the best of several."""


def divide(text: str) -> list[Span]:
    """Return the windows of a text in order; none of a text of at most twice `WINDOW_SIZE` characters.

    A window holds the whole sentences whose middles lie in its share of the text, so that windows together hold all of
    the text but the white space between them. A sentence longer than a window is cut between words.
    """
    if len(text) <= 2 * WINDOW_SIZE:
        return []
    step = len(text) / min(ceil(len(text) / WINDOW_SIZE), WINDOWS_MAX)
    found: dict[int, Span] = {}
    for start, end in sentences(text, ceil(step)):
        share = int((start + end) / 2 / step)
        found[share] = Span(found[share].start if share in found else start, end)
    return list(found.values()) if len(found) > 1 else []
