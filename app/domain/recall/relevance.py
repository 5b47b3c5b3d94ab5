"""How much a memory has to do with what is being said, as a number that means the same in every conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.ops import Floats
from app.domain.recall.request import FADE
from app.domain.retrieval.terms import Term, idf
from app.domain.wording import content_words

UNKNOWN: Final = 0.3
"""Closeness of a memory of which it isn't known: what evidence has at the median."""
_WORDS: Final = (3.0, 11.0, 4.0, -9.0)
"""Of the share of a message's words that a memory has, of how much they are by themselves, of closeness; and the rest.

Fitted to the development split of LoCoMo with the bundled embedder; `closeness` is what carries over to another one.
"""
_MEANING: Final = (10.0, -5.1)
"""Of closeness where it is all that speaks for a memory: more than .55 of it is needed."""

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for each of n memories, as far as it is known.

    Attributes:
        lexemes: Those of the window's words that may be found, m of them.
        own: Which of them are among a memory's own words, shape (n, m).
        near: Which are among its own or its neighbours', shape (n, m).
        cosine: To the window's vector, shape (n,); NaN where there is none.
        background: The same of memories taken without regard to it, shape (k,).
    """

    lexemes: Sequence[str]
    own: Flags
    near: Flags
    cosine: Floats
    background: Floats


def relevance(window: Sequence[str], asked: Sequence[Term], total: int, found: Evidence, context: float) -> Floats:
    """How much each memory has to do with what is being said, 0 to 1, shape (n,).

    Each message is judged by its words for itself, at `FADE` of the one after it, and the best counts: what is said
    about nothing in between takes nothing away. Meaning is that of the whole window.

    Args:
        window: The messages, the newest first.
        asked: Their words, with how many memories have each.
        total: All memories.
        found: What speaks for each memory.
        context: Worth of a word that only the neighbouring turns say, as a share of one of the memory's own.
    """
    places = {lexeme: place for place, lexeme in enumerate(found.lexemes)}
    documents = {term.lexeme: term.documents for term in asked}
    stems: dict[str, set[str]] = {}
    for term in asked:
        if term.spelling is not None:
            stems.setdefault(term.spelling, set()).add(term.lexeme)
    worth = np.where(found.own, 1.0, context * found.near)
    close = closeness(found.cosine, found.background)
    best = np.zeros(len(close))
    for age, line in enumerate(window):
        said = sorted(set().union(*(stems.get(word, ()) for word in content_words(line))))
        weights = np.array([rarity(documents[lexeme], total) for lexeme in said])
        held = [place for place, lexeme in enumerate(said) if lexeme in places]
        mass = worth[:, [places[said[place]] for place in held]] @ weights[held]
        share = mass / max(float(weights.sum()), 1e-9)
        best = np.maximum(best, FADE**age * _judged(share, mass, close))
    return best


def rarity(documents: int, total: int) -> float:
    """Rarity of a word, 0 to 1: 1 where one of `total` memories has it, or none.

    So that what is rare means the same among ten memories and among a million.
    """
    return idf(max(documents, 1), total) / idf(1, total)


def closeness(cosine: Floats, background: Floats) -> Floats:
    """Closeness in meaning, 0 to 1: how far a cosine is from the usual one towards 1.

    The usual one is the median of memories taken without regard to the query: embedders differ in what they give to
    texts that have nothing to do with each other, from 0 to .8. Without it, or without a cosine, `UNKNOWN`.
    """
    if len(background) < 2:  # one alone tells nothing of the others
        return np.full(len(cosine), UNKNOWN)
    usual = min(max(float(np.sort(background)[(len(background) - 1) // 2]), 0.0), 0.99)
    return np.where(np.isnan(cosine), UNKNOWN, np.clip((cosine - usual) / (1 - usual), 0, 1))


def _judged(share: Floats, mass: Floats, close: Floats) -> Floats:
    by_share, by_mass, by_meaning, rest = _WORDS
    words = by_share * share + by_mass * mass / (1 + mass) + by_meaning * close + rest
    alone = _MEANING[0] * close + _MEANING[1]
    return np.asarray(1 / (1 + np.exp(-np.clip(np.maximum(words, alone), -30, 30))))
