"""Measure the share of its key points that a summary still states, by comparing names, numbers and words.

Words match if their first five characters are equal, which covers inflections and derived words but not synonyms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.domain.text.words import STOP_WORDS, content_words, words_as_written

ENTAILED_MIN: Final = 0.8
"""Minimum share of the key points that a summary must state."""
WORDS_MIN: Final = 0.6
"""Minimum share of a point's words that a text must contain to state it, in addition to all its names and numbers."""
_STEM_CHARACTERS: Final = 5


def stem(word: str) -> str:
    """Return the prefix by which words are compared."""
    return word[:_STEM_CHARACTERS]


def stems(text: str) -> set[str]:
    """Return the stems of a text's content words."""
    return {stem(word) for word in content_words(text)}


def name_stems(text: str) -> set[str]:
    """Return the stems of a text's names and numbers: words with a digit, and capitalised words after the first."""
    written = words_as_written(text)
    lowered = {word.lower() for place, word in enumerate(written) if place and word[0].isupper()} - STOP_WORDS
    lowered |= {word.lower() for word in written if any(sign.isdigit() for sign in word)}
    return {stem(word) if word.isalpha() else word for word in lowered}


def states_point(text: str, point: str) -> bool:
    """Return whether a text states a point: it contains all of the point's names and numbers, and most of its words."""
    text_stems, point_stems = stems(text) | name_stems(text), stems(point)
    return name_stems(point) <= text_stems and len(point_stems & text_stems) >= WORDS_MIN * len(point_stems)


def entailed_share(summary: str, key_points: Sequence[str], sources: Sequence[str]) -> float | None:
    """Return the share of key points that a summary states, or None if there are no points to check.

    Points that no source states any more, after an edit or an erasure, are left out.
    """
    supported = [point for point in key_points if any(states_point(source, point) for source in sources)]
    return sum(states_point(summary, point) for point in supported) / len(supported) if supported else None
