"""How rare the words of a query are among a tenant's memories."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

TERMS_MAX = 32
"""Words of a query that are looked up; of a longer one, the rarest."""
EVEN: Final[Mapping[str, float]] = MappingProxyType({})
"""No word of a query counts more than another of its rarity."""


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


def weigh(terms: Sequence[Term], total: int, emphasis: Mapping[str, float] = EVEN) -> WeighedQuery:
    """The query's words by rarity among `total` memories.

    A lexeme in no memory can't find any and is left out; a spelling in no memory counts as the rarest, since
    its meaning may be near. Of many lexemes, the `TERMS_MAX` that weigh most stay.

    Args:
        terms: The query's.
        total: All memories.
        emphasis: By what a spelling's rarity, and that of the lexemes it came to, is multiplied; 1 where it isn't
            there.
    """
    lexemes: dict[str, float] = {}
    spellings: dict[str, float] = {}
    share: dict[str, float] = {}
    for term in terms:
        if term.spelling is not None:
            said = emphasis.get(term.spelling, 1.0)
            share[term.lexeme] = max(said, share.get(term.lexeme, 0.0))
            spellings[term.spelling] = max(said * idf(term.documents, total), spellings.get(term.spelling, 0.0))
    for term in terms:
        if term.spelling is None and term.documents > 0:
            lexemes[term.lexeme] = share.get(term.lexeme, 1.0) * idf(term.documents, total)
    rarest = sorted(lexemes.items(), key=lambda item: (-item[1], item[0]))[:TERMS_MAX]
    return WeighedQuery(dict(rarest), spellings)
