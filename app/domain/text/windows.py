"""Divide a long memory into windows of similar length that have vectors of their own.

A single vector of a long text is an average that is close to no particular query, so a search would miss its individual
sentences. A search therefore also compares windows and ranks a memory by its best window.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from app.domain.text.highlight import TextSpan, split_sentences

WINDOW_SIZE: Final = 500
"""Approximate number of characters per window; a text up to twice as long has no windows."""
WINDOWS_MAX: Final = 64
"""Maximum number of windows per memory; texts longer than this times `WINDOW_SIZE` get longer windows."""
WINDOW_SHARE: Final = 0.9
"""Factor on the cosine of a memory's best window, because the maximum of several cosines is too high by chance."""


def divide(text: str) -> list[TextSpan]:
    """Return the windows of a text in order; none for a text of at most twice `WINDOW_SIZE` characters.

    A window contains the whole sentences whose midpoints are in its share of the text, so the windows together cover
    all of the text except the white space between them. A sentence longer than a window is cut between words.
    """
    if len(text) <= 2 * WINDOW_SIZE:
        return []
    step = len(text) / min(ceil(len(text) / WINDOW_SIZE), WINDOWS_MAX)
    windows: dict[int, TextSpan] = {}
    for start, end in split_sentences(text, ceil(step)):
        share = int((start + end) / 2 / step)
        windows[share] = TextSpan(windows[share].start if share in windows else start, end)
    return list(windows.values()) if len(windows) > 1 else []
