"""Find the passage of a long text that contains most of a query's words, without tokenising the whole text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from app.domain.consolidation.facts import stem
from app.domain.text.words import HEAD_CHARACTERS, HEAD_WORDS, content_words

SPREAD: Final = 240
"""Maximum distance from the start of a passage's first match to the start of its last one, in characters."""
BEFORE: Final = 60
"""Characters of context before the first match."""
LENGTH: Final = 300
_BEGINNING: Final = 3
"""Minimum length of the prefix by which words match, in letters; shorter stems are used whole."""


class PassageFinder:
    """Finder of the best passage in long texts for one query."""

    def __init__(self, rarity: Mapping[str, float]) -> None:
        """Compile the query's words.

        Args:
            rarity: Rarity by word, above 0.
        """
        self._rarity = list(rarity.values())
        words = "|".join(f"({re.escape(_beginning(word))})" for word in rarity)
        self._pattern = re.compile(rf"\b(?:{words})", re.IGNORECASE) if words else None

    def find(self, text: str) -> list[str]:
        """Return the distinct content words of the best passage beyond `HEAD_CHARACTERS`; empty if there is none.

        The best passage has the largest sum of rarities over its distinct query words; the first one wins a tie.
        """
        if self._pattern is None or len(text) <= HEAD_CHARACTERS:
            return []
        hits = [(match.start(), match.lastindex or 0) for match in self._pattern.finditer(text, HEAD_CHARACTERS)]
        if not hits:
            return []
        best, start = 0.0, 0
        within: Counter[int] = Counter()
        total, first = 0.0, 0
        for at, word in hits:
            while at - hits[first][0] > SPREAD:
                leaving = hits[first][1]
                within[leaving] -= 1
                total -= 0 if within[leaving] else self._rarity[leaving - 1]
                first += 1
            total += 0 if within[word] else self._rarity[word - 1]
            within[word] += 1
            if total > best + 1e-9:
                best, start = total, hits[first][0]
        begin = max(start - BEFORE, HEAD_CHARACTERS)
        return list(dict.fromkeys(content_words(text[begin : begin + LENGTH])[:HEAD_WORDS]))


def _beginning(word: str) -> str:
    """Return the prefix that all forms of a word share: its stem without the last letter, at least three letters."""
    word_stem = stem(word)
    return word_stem[: max(_BEGINNING, len(word_stem) - 1)]
