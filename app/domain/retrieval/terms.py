"""How rare the words of a query are among a tenant's memories."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

TERMS_MAX = 32
"""Words of a query that are looked up; of a longer one, the rarest."""


@dataclass(frozen=True, slots=True)
class Term:
    """A lexeme of the query, and in how many of the tenant's memories it is.

    Attributes:
        lexeme: As the full-text index has it.
        documents: Memories that contain it.
        spelling: The word of the query it came from; None for a lexeme of the query as a whole.
    """

    lexeme: str
    documents: int
    spelling: str | None


@dataclass(frozen=True, slots=True)
class WeighedQuery:
    """A query's words by rarity (`idf`): `lexemes` for the full-text index, `spellings` for the embedder."""

    lexemes: dict[str, float]
    spellings: dict[str, float]


def idf(documents: int, total: int) -> float:
    """Rarity of a word: ln(1 + (N - n + ½) / (n + ½)), above 0 (Robertson and Spärck Jones, as in BM25).

    Args:
        documents: Memories that contain it, n, at least 0.
        total: All memories, N; taken as n where it is less.
    """
    return math.log1p((max(total - documents, 0) + 0.5) / (documents + 0.5))


def weigh(terms: Sequence[Term], total: int) -> WeighedQuery:
    """The query's words by rarity among `total` memories.

    A lexeme in no memory can't find any and is left out; a spelling in no memory counts as the rarest, since
    its meaning may be near. Of many lexemes, the `TERMS_MAX` rarest stay.
    """
    lexemes: dict[str, float] = {}
    spellings: dict[str, float] = {}
    for term in terms:
        rarity = idf(term.documents, total)
        if term.spelling is not None:
            spellings[term.spelling] = max(rarity, spellings.get(term.spelling, 0.0))
        elif term.documents > 0:
            lexemes[term.lexeme] = rarity
    rarest = sorted(lexemes.items(), key=lambda item: (-item[1], item[0]))[:TERMS_MAX]
    return WeighedQuery(dict(rarest), spellings)
