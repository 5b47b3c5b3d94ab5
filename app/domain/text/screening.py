"""Screen a batch of texts in one pass for those that the index stage has to scan."""

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
    """The texts to read for each purpose, each of shape (texts,); other texts contain no match.

    Attributes:
        personal: `pii_detection.detect_pii` may find something.
        reminders: `bridges.read_flags` may return a flag.
        corrections: `corrections.parse_statement` may return a statement with `says_change`.
    """

    personal: NDArray[np.bool_]
    reminders: NDArray[np.bool_]
    corrections: NDArray[np.bool_]


def screen_texts(texts: Sequence[str]) -> ScreenedTexts:
    """Return which texts to read for each purpose."""
    signs = Signs(texts)
    found = _markers().find(signs)
    return ScreenedTexts(
        found["personal"]
        | (signs.count("0123456789") >= pii_detection.DIGITS_MIN)
        | (signs.count(":-") >= pii_detection.DASHES_MIN)
        | signs.has_run(pii_detection.LONG),
        found["reminders"],
        found["ends"] | (found["changes"] & found["values"]),
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
