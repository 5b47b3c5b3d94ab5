"""Compute the word and vector features of a memory's relevance, on the same scale for every conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.ops import Floats
from app.domain.recall.request import emphasis
from app.domain.search.terms import QueryTerm, inverse_document_frequency

UNKNOWN: Final = 0.1
"""Closeness of a memory whose cosine is unknown: the median over memories relevant to a conversation."""
BACKGROUND_MIN: Final = 10
"""Minimum number of background cosines; fewer are filled up with the embedder's usual cosine, if it is known."""
SAID_BEFORE: Final = 0.3
"""Weight of a word that occurs only in neighbouring turns, relative to a word in the memory itself."""

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class WeighedWord:
    """A content word of a conversation.

    Attributes:
        spelling: Lower-cased spelling in the newest message that contains it.
        lexemes: Lexemes of the full-text index for the word and its irregular forms.
        weight: Rarity among the memories times the decay by age of the newest message with the word, 0 to 1.
        is_held: True if any memory contains the word.
    """

    spelling: str
    lexemes: frozenset[str]
    weight: float
    is_held: bool


@dataclass(frozen=True, slots=True)
class StoredEvidence:
    """Stored facts about each of n memories.

    Attributes:
        lexemes: The m lexemes of the window that can be looked up.
        own: True where the lexeme occurs in the memory itself, shape (n, m).
        near: True where the lexeme occurs in the memory or its neighbours, shape (n, m).
        cosine: Cosine with the window's vector, shape (n,); NaN if the memory has no vector.
        background: Cosines of memories sampled independently of the query, shape (k,).
        personal: The personal criterion of the salience score, 0 to 10, shape (n,); 0 if the memory isn't scored yet.
        reminders: Bit flags from `bridges.read_flags`, shape (n,); 0 if the memory isn't indexed yet.
        cues: True where the memory has a cue that occurs in the conversation, shape (n, cues).
    """

    lexemes: Sequence[str]
    own: Flags
    near: Flags
    cosine: Floats
    background: Floats
    personal: Floats
    reminders: npt.NDArray[np.int64]
    cues: Flags


def weigh_words(
    window: Sequence[str], asked: Sequence[QueryTerm], total: int, forms: Mapping[str, Sequence[str]]
) -> list[WeighedWord]:
    """Return the content words of a conversation with their weights, without words that the full-text index ignores.

    Args:
        window: The messages, newest first.
        asked: Query terms of the words and of their irregular forms, with document counts.
        total: Number of memories.
        forms: Irregular forms, by word.
    """
    documents: dict[str, dict[str, int]] = {}
    for term in asked:
        if term.spelling is not None:
            documents.setdefault(term.spelling, {})[term.lexeme] = term.documents
    weighed = []
    for spelling, fade in emphasis(window).items():
        own = documents.get(spelling)
        if not own:
            continue
        others = {lexeme: n for form in forms.get(spelling, ()) for lexeme, n in documents.get(form, {}).items()}
        most_documents = max({**others, **own}.values())
        weighed.append(
            WeighedWord(spelling, frozenset(own | others), fade * rarity(most_documents, total), most_documents > 0)
        )
    return weighed


def decay_by_age(words: Sequence[WeighedWord], emphasis: Mapping[str, float]) -> dict[str, float]:
    """Return the decay of each lexeme of a conversation by the age of the newest message with the lexeme, 0 to 1.

    Args:
        emphasis: Decay by spelling, from `request.emphasis`.
    """
    decays: dict[str, float] = {}
    for word in words:
        for lexeme in word.lexemes:
            decays[lexeme] = max(emphasis[word.spelling], decays.get(lexeme, 0.0))
    return decays


def cue_values(cues: Mapping[str, int], faded: Mapping[str, float], total: int) -> Floats:
    """Return the value of each cue that occurs in a conversation, 0 to 1, shape (cues,).

    The value is the cue's rarity among the memories times the decay of its least recent word.

    Args:
        cues: Document counts by cue; a cue is a space-separated list of lexemes.
        faded: Decay by lexeme of the conversation, from `decay_by_age`.
        total: Number of memories.
    """
    return np.array(
        [min(faded[lexeme] for lexeme in cue.split(" ")) * rarity(documents, total) for cue, documents in cues.items()]
    )


def shared_words(words: Sequence[WeighedWord], evidence: StoredEvidence) -> Floats:
    """Return the weighted share of a conversation's words that occur in each memory, 0 to 1, shape (n,).

    Words with the same lexemes count once, with the largest weight; a word that occurs only in neighbouring turns
    counts `SAID_BEFORE`.
    """
    weights: dict[frozenset[str], float] = {}
    for word in words:
        weights[word.lexemes] = max(word.weight, weights.get(word.lexemes, 0.0))
    places = {lexeme: place for place, lexeme in enumerate(evidence.lexemes)}
    presence = np.where(evidence.own, 1.0, SAID_BEFORE * evidence.near)
    mass = np.zeros(len(presence))
    for lexemes, weight in weights.items():
        columns = [places[lexeme] for lexeme in lexemes if lexeme in places]
        if columns:
            mass += weight * presence[:, columns].max(axis=1)
    return mass / max(sum(weights.values()), 1e-9)


def rarity(documents: int, total: int) -> float:
    """Return the rarity of a word, 0 to 1; 1 if at most one of `total` memories contains it.

    The normalisation makes rarities comparable between ten memories and a million.
    """
    return inverse_document_frequency(max(documents, 1), total) / inverse_document_frequency(1, total)


def fill_background(background: Floats, usual: float) -> Floats:
    """Return the background sample, filled to `BACKGROUND_MIN` values with the embedder's usual cosine.

    Among few memories, the sample consists mainly of the relevant ones.
    """
    return np.append(background, np.full(max(BACKGROUND_MIN - len(background), 0), usual))


def closeness(cosine: Floats, background: Floats) -> Floats:
    """Return the closeness of meaning, 0 to 1: the position of each cosine between the usual cosine and 1.

    Embedders differ in the cosine that they give to unrelated texts (0 to 0.8). So the usual cosine is measured: the
    median over memories sampled independently of the query.
    Without a background sample, or without a cosine, the closeness is `UNKNOWN`.
    """
    if len(background) < 2:  # one sample doesn't show the distribution
        return np.full(len(cosine), UNKNOWN)
    usual = min(max(float(np.sort(background)[(len(background) - 1) // 2]), 0.0), 0.99)
    return np.where(np.isnan(cosine), UNKNOWN, np.clip((cosine - usual) / (1 - usual), 0, 1))
