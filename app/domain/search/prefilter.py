"""Choose the words and word pairs that a memory must contain to be compared with a query, for very large tenants."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from typing import Final

BUDGET: Final = 4000
"""Target for the number of memories that a search compares by words."""
CONTEXT: Final = 5
"""Number of turns whose words make a memory match: its own and two on either side."""
PAIRED_MAX: Final = 8
"""Maximum number of common words that are combined into pairs; the rarest of them are used."""


def worthwhile_words(lexemes: Mapping[str, float], total: int, budget: int = BUDGET) -> list[tuple[str, ...]]:
    """Return the words to look up alone, and the pairs of words to look up together.

    Memories that can't score well aren't read (after MaxScore, Turtle and Flood 1995). The rarest words are looked up
    alone: at least one word, and more while the expected number of matches is within the budget. The remaining words
    are looked up in pairs, rarest pairs first, within the rest of the budget.

    Args:
        lexemes: The query's lexemes with their idf among `total` memories, from `terms.inverse_document_frequency`.
        total: Number of memories.
        budget: Approximate number of memories to match.
    """
    expected = {lexeme: min(total, CONTEXT * _documents(idf, total)) for lexeme, idf in lexemes.items()}
    rarest = sorted(expected, key=lambda lexeme: (expected[lexeme], lexeme))
    chosen: list[tuple[str, ...]] = []
    others: list[str] = []
    spent = 0.0
    for lexeme in rarest:
        if chosen and spent + expected[lexeme] > budget:
            others.append(lexeme)
        else:
            chosen.append((lexeme,))
            spent += expected[lexeme]
    pairs = [(expected[first] * expected[second] / max(total, 1), (first, second)) for first, second in _pairs(others)]
    for count, pair in sorted(pairs):
        if spent + count > budget:
            break
        chosen.append(pair)
        spent += count
    return chosen


def _pairs(lexemes: list[str]) -> combinations[tuple[str, str]]:
    return combinations(lexemes[:PAIRED_MAX], 2)


def _documents(idf: float, total: int) -> float:
    """Return the number of memories that contain a word with this idf, at least 1."""
    return max((total + 1) * math.exp(-idf) - 0.5, 1.0)
