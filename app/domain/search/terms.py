"""How rare the words of a query are among a tenant's memories."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

_NONE: Final[Mapping[str, Sequence[str]]] = MappingProxyType({})

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
    """A query's words by rarity (`idf`).

    Attributes:
        lexemes: For the full-text index.
        spellings: For the embedder.
        soft: Spellings whose closest words are looked for in memories: all, or of many the rarest that some memory
            has, up to `TERMS_MAX`.
    """

    lexemes: dict[str, float]
    spellings: dict[str, float]
    soft: dict[str, float]


def idf(documents: int, total: int) -> float:
    """Rarity of a word: ln(1 + (N - n + ½) / (n + ½)), above 0 (Robertson and Spärck Jones, as in BM25).

    Args:
        documents: Memories that contain it, n, at least 0.
        total: All memories, N; taken as n where it is less.
    """
    return math.log1p((max(total - documents, 0) + 0.5) / (documents + 0.5))


def weigh(
    terms: Sequence[Term],
    total: int,
    forms: Mapping[str, Sequence[str]] = _NONE,
    emphasis: Mapping[str, float] = EVEN,
) -> WeighedQuery:
    """The query's words by rarity among `total` memories.

    A lexeme in no memory can't find any and is left out; a spelling in no memory counts as the rarest, since
    its meaning may be near. Of many lexemes, the `TERMS_MAX` that weigh most stay.

    Args:
        terms: Of the query as a whole, and of each of its spellings and their other forms.
        total: All memories.
        forms: Other forms by the spelling they stand for; all together are as rare as one word.
        emphasis: By what a spelling's rarity, and that of the lexemes it came to, is multiplied; 1 where it isn't
            there.
    """
    lexemes: dict[str, float] = {}
    spellings: dict[str, float] = {}
    share: dict[str, float] = {}
    documents: dict[str, dict[str, int]] = {}
    not_asked = {form for others in forms.values() for form in others}.difference(forms)
    for term in terms:
        rarity = idf(term.documents, total)
        if term.spelling is None:
            if term.documents > 0:
                lexemes[term.lexeme] = rarity
            continue
        documents.setdefault(term.spelling, {})[term.lexeme] = term.documents
        if term.spelling not in not_asked:
            said = emphasis.get(term.spelling, 1.0)
            share[term.lexeme] = max(said, share.get(term.lexeme, 0.0))
            spellings[term.spelling] = max(said * rarity, spellings.get(term.spelling, 0.0))
    for spelling, others in forms.items():
        group = {lexeme: n for form in (spelling, *others) for lexeme, n in documents.get(form, {}).items() if n > 0}
        lexemes |= dict.fromkeys(group, idf(sum(group.values()), total))
        for lexeme in group:
            share[lexeme] = max(emphasis.get(spelling, 1.0), share.get(lexeme, 0.0))
    lexemes = {lexeme: share.get(lexeme, 1.0) * rarity for lexeme, rarity in lexemes.items()}
    rarest = sorted(lexemes.items(), key=lambda item: (-item[1], item[0]))[:TERMS_MAX]
    return WeighedQuery(dict(rarest), spellings, _soft(spellings, documents))


def _soft(spellings: Mapping[str, float], documents: Mapping[str, Mapping[str, int]]) -> dict[str, float]:
    if len(spellings) <= TERMS_MAX:
        return dict(spellings)
    known = [(word, rarity) for word, rarity in spellings.items() if any(documents.get(word, {}).values())]
    return dict(sorted(known, key=lambda item: (-item[1], item[0]))[:TERMS_MAX])
