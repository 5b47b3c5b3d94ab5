"""Find, in one pass over a batch of texts, the texts that the index stage must scan with regular expressions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.domain import corrections
from app.domain.privacy import pii_detection
from app.domain.recall import bridges
from app.domain.text.markers import Markers, Signs


class ScreenedTexts(NamedTuple):
    """True for the texts to scan, by purpose, shape (texts,) each; other texts contain no match.

    Attributes:
        personal: `pii_detection.detect_pii` may find something.
        reminders: `bridges.read_flags` may return a flag.
        corrections: `corrections.parse_statement` may return a statement with `says_change`.
    """

    personal: NDArray[np.bool_]
    reminders: NDArray[np.bool_]
    corrections: NDArray[np.bool_]


def screen_texts(texts: Sequence[str]) -> ScreenedTexts:
    """Return the texts to scan for each purpose."""
    signs = Signs(texts)
    has_marker = _markers().find(signs)
    return ScreenedTexts(
        has_marker["personal"]
        | (signs.count("0123456789") >= pii_detection.DIGITS_MIN)
        | (signs.count(":-") >= pii_detection.DASHES_MIN)
        | signs.has_run(pii_detection.LONG),
        has_marker["reminders"],
        has_marker["ends"] | (has_marker["changes"] & has_marker["values"]),
    )


@lru_cache(maxsize=1)
def _markers() -> Markers:
    return Markers(
        {
            "personal": pii_detection.MARKERS,
            "reminders": bridges.markers(),
            "ends": corrections.ENDS_MARKERS,
            "changes": corrections.CHANGES_MARKERS,
            "values": corrections.VALUES_MARKERS,
        }
    )
