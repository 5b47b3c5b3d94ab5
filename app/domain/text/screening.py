"""Screen a batch of texts in one pass for those that the index stage has to scan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.domain import corrections
from app.domain.privacy import detection
from app.domain.recall import bridges
from app.domain.text.markers import Markers, Signs


class Screened(NamedTuple):
    """The texts to read for each purpose, each of shape (texts,); other texts contain no match.

    Attributes:
        personal: `detection.detect` may find something.
        reminders: `bridges.read_flags` may return a flag.
        corrections: `corrections.read` may return a statement with `says_change`.
    """

    personal: NDArray[np.bool_]
    reminders: NDArray[np.bool_]
    corrections: NDArray[np.bool_]


def screen(texts: Sequence[str]) -> Screened:
    """Return which texts to read for each purpose."""
    signs = Signs(texts)
    found = _markers().find(signs)
    return Screened(
        found["personal"]
        | (signs.count("0123456789") >= detection.DIGITS_MIN)
        | (signs.count(":-") >= detection.DASHES_MIN)
        | signs.has_run(detection.LONG),
        found["reminders"],
        found["ends"] | (found["changes"] & found["values"]),
    )


@lru_cache(maxsize=1)
def _markers() -> Markers:
    return Markers(
        {
            "personal": detection.MARKERS,
            "reminders": bridges.markers(),
            "ends": corrections.ENDS_MARKERS,
            "changes": corrections.CHANGES_MARKERS,
            "values": corrections.VALUES_MARKERS,
        }
    )
