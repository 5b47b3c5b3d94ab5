"""Whether a summary still says what it was made to keep: by names, numbers and words, without a model.

Words count as the same that begin alike, so that an inflection or a derived word is one; a synonym isn't.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.domain.text.wording import STOP_WORDS, content_words, words_as_written

ENTAILED_MIN: Final = 0.8
"""Share of the key points that a summary has to say."""
WORDS_MIN: Final = 0.6
"""Share of a point's words that have to be in a text that says it; its names and numbers all do."""
_STEM_CHARACTERS: Final = 5


def stem(word: str) -> str:
    """Return the beginning by which words count as the same."""
    return word[:_STEM_CHARACTERS]


def stems(text: str) -> set[str]:
    """What the content words of a text begin with."""
    return {stem(word) for word in content_words(text)}


def marks(text: str) -> set[str]:
    """Stems of the names and numbers of a text: words with a digit, and capitalised ones that don't begin it."""
    written = words_as_written(text)
    lower = {word.lower() for place, word in enumerate(written) if place and word[0].isupper()} - STOP_WORDS
    lower |= {word.lower() for word in written if any(sign.isdigit() for sign in word)}
    return {stem(word) if word.isalpha() else word for word in lower}


def says(text: str, point: str) -> bool:
    """Whether a text says a point: all of its names and numbers, and most of its words."""
    held, wanted = stems(text) | marks(text), stems(point)
    return marks(point) <= held and len(wanted & held) >= WORDS_MIN * len(wanted)


def entailed(summary: str, key_points: Sequence[str], sources: Sequence[str]) -> float | None:
    """Share of the key points that a summary says, of those that a source still says; None where there are none.

    A point that no source says any more, after an edit or an erasure, isn't asked for.
    """
    due = [point for point in key_points if any(says(source, point) for source in sources)]
    return sum(says(summary, point) for point in due) / len(due) if due else None
