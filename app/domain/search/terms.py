"""Compute the rarity of a query's words among a tenant's memories."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

_NONE: Final[Mapping[str, Sequence[str]]] = MappingProxyType({})

TERMS_MAX = 32
"""Maximum number of query words to look up; the rarest are used."""
EVEN: Final[Mapping[str, float]] = MappingProxyType({})
"""Emphasis that changes no word's weight."""


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """A lexeme of the query with its document count.

    Attributes:
        lexeme: Spelling in the full-text index.
        documents: Number of the tenant's memories that contain it.
        spelling: The query word that the lexeme was derived from; None for a lexeme of the query as a whole.
    """

    lexeme: str
    documents: int
    spelling: str | None


@dataclass(frozen=True, slots=True)
class WeighedQuery:
    """A query's words by rarity (`idf`).

    Attributes:
        lexemes: Weights for the full-text index.
        spellings: Weights for the embedder.
        soft: Weights of the spellings that are also compared with the memories' words by meaning: all spellings, or, if
            there are more than `TERMS_MAX`, the rarest spellings that occur in some memory.
    """

    lexemes: dict[str, float]
    spellings: dict[str, float]
    soft: dict[str, float]


def inverse_document_frequency(documents: int, total: int) -> float:
    """Return the rarity of a word: ln(1 + (N - n + ½) / (n + ½)), above 0 (Robertson and Spärck Jones, as in BM25).

    Args:
        documents: Number of memories that contain it, n, at least 0.
        total: Number of memories, N; treated as n if smaller.
    """
    return math.log1p((max(total - documents, 0) + 0.5) / (documents + 0.5))


def weigh_query(
    terms: Sequence[QueryTerm],
    total: int,
    forms: Mapping[str, Sequence[str]] = _NONE,
    emphasis: Mapping[str, float] = EVEN,
) -> WeighedQuery:
    """Weigh the query's words by their rarity among `total` memories.

    A lexeme that occurs in no memory cannot match and is dropped. A spelling that occurs in no memory counts as the
    rarest, because memories may contain words of similar meaning. Only the `TERMS_MAX` heaviest lexemes are used.

    Args:
        terms: Terms of the query as a whole, and of each spelling and its other forms.
        total: Number of memories.
        forms: Other forms of a spelling, by spelling; a spelling and its forms share one rarity.
        emphasis: Factor on the rarity of a spelling and its lexemes; 1 for spellings not listed.
    """
    lexemes: dict[str, float] = {}
    spellings: dict[str, float] = {}
    factors: dict[str, float] = {}
    documents: dict[str, dict[str, int]] = {}
    form_only = {form for others in forms.values() for form in others}.difference(forms)
    for term in terms:
        rarity = inverse_document_frequency(term.documents, total)
        if term.spelling is None:
            if term.documents > 0:
                lexemes[term.lexeme] = rarity
            continue
        documents.setdefault(term.spelling, {})[term.lexeme] = term.documents
        if term.spelling not in form_only:
            factor = emphasis.get(term.spelling, 1.0)
            factors[term.lexeme] = max(factor, factors.get(term.lexeme, 0.0))
            spellings[term.spelling] = max(factor * rarity, spellings.get(term.spelling, 0.0))
    for spelling, others in forms.items():
        group = {lexeme: n for form in (spelling, *others) for lexeme, n in documents.get(form, {}).items() if n > 0}
        lexemes |= dict.fromkeys(group, inverse_document_frequency(sum(group.values()), total))
        for lexeme in group:
            factors[lexeme] = max(emphasis.get(spelling, 1.0), factors.get(lexeme, 0.0))
    lexemes = {lexeme: factors.get(lexeme, 1.0) * rarity for lexeme, rarity in lexemes.items()}
    rarest = sorted(lexemes.items(), key=lambda item: (-item[1], item[0]))[:TERMS_MAX]
    return WeighedQuery(dict(rarest), spellings, _soft(spellings, documents))


def _soft(spellings: Mapping[str, float], documents: Mapping[str, Mapping[str, int]]) -> dict[str, float]:
    if len(spellings) <= TERMS_MAX:
        return dict(spellings)
    known = [(word, rarity) for word, rarity in spellings.items() if any(documents.get(word, {}).values())]
    return dict(sorted(known, key=lambda item: (-item[1], item[0]))[:TERMS_MAX])
