"""Which memories of very many are worth comparing with a query: those that have a rare word of it, or two others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from typing import Final

BUDGET: Final = 4000
"""Memories that a search compares by words, as far as can be told beforehand."""
CONTEXT: Final = 5
"""Turns whose words a memory is found by: its own and two on either side."""
PAIRED_MAX: Final = 8
"""Commoner words of which pairs are looked at; of more, the rarest."""


def worth(lexemes: Mapping[str, float], total: int, budget: int = BUDGET) -> list[tuple[str, ...]]:
    """Words each of which is worth looking up, and pairs that are worth it where a memory has both.

    What can't score well isn't read (after MaxScore, Turtle and Flood 1995): rare words come first, as long as the
    memories that have them stay within the budget, and at least one; of the others, pairs, rarest first.

    Args:
        lexemes: The query's, with their idf among `total` memories, as `terms.idf` has it.
        total: How many memories there are.
        budget: About how many may be found.
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
    pairs = [(expected[one] * expected[other] / max(total, 1), (one, other)) for one, other in _pairs(others)]
    for count, pair in sorted(pairs):
        if spent + count > budget:
            break
        chosen.append(pair)
        spent += count
    return chosen


def _pairs(lexemes: list[str]) -> combinations[tuple[str, str]]:
    return combinations(lexemes[:PAIRED_MAX], 2)


def _documents(idf: float, total: int) -> float:
    """How many memories have a word of this rarity."""
    return max((total + 1) * math.exp(-idf) - 0.5, 1.0)
