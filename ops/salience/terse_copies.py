"""Write a terse copy of a text: without function words, capitals and final punctuation, and mistyped.

Copies of labelled memories in this form keep the labels. Weights that are fitted to both depend less on words that
hurried writers omit or mistype.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

WORDS_MOST: Final = 60
"""Longer texts aren't hurried."""
MISTYPED_ONE_IN: Final = 12
LOWER_SHARE: Final = 0.7
_OMITTED: Final = frozenset(
    """
    i i'm i've i'll i'd my we we're we've we'll our the a an is are am was were be been to of that this it it's have has
    had do does did please so just really very actually and but because then there there's would could should will
    """.split()  # noqa: SIM905 - readable as a text
)
_WORD: Final = re.compile(r"\S+")
_STRIPPED: Final = ".,;:!?\"'()"


def write_tersely(text: str, random: np.random.Generator) -> str | None:
    """Return the terse copy of a text; None if it is too long, or has no other words."""
    words = _WORD.findall(text)
    if len(words) > WORDS_MOST:
        return None
    kept = [word for word in words if word.lower().strip(_STRIPPED) not in _OMITTED]
    if not kept:
        return None
    kept = [_mistype(word, random) if random.random() * MISTYPED_ONE_IN < 1 else word for word in kept]
    terse = " ".join(kept).rstrip(".!,;")
    return terse.lower() if random.random() < LOWER_SHARE else terse


def _mistype(word: str, random: np.random.Generator) -> str:
    """Swap two letters of a word with at least four, omit one, or type one twice."""
    if len(word) < 4 or not word.isalpha():
        return word
    at = int(random.integers(1, len(word) - 1))
    swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return (swapped, word[:at] + word[at + 1 :], word[: at + 1] + word[at:])[int(random.integers(3))]
