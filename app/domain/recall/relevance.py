"""How much a memory has to do with what is being said, as a number that means the same in every conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.ops import Floats
from app.domain.recall.request import emphasis
from app.domain.search.terms import Term, idf

UNKNOWN: Final = 0.1
"""Closeness of a memory where it is unknown: the median of the memories that conversations call for."""
SAID_BEFORE: Final = 0.3
"""Worth of a word that only the neighbouring turns say, as a share of one of the memory's own."""

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class WeighedWord:
    """A content word of a conversation.

    Attributes:
        spelling: As the newest message that says it has it, in lower case.
        lexemes: Those of the full-text index for the word and its irregular forms.
        weight: Its rarity among the memories, faded by the messages since, 0 to 1.
        is_held: Whether any memory has it.
    """

    spelling: str
    lexemes: frozenset[str]
    weight: float
    is_held: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """Stored facts about each of n memories.

    Attributes:
        lexemes: Those of the window's words that may be found, m of them.
        own: Which of them are among a memory's own words, shape (n, m).
        near: Which are among its own or its neighbours', shape (n, m).
        cosine: To the window's vector, shape (n,); NaN where there is none.
        background: The same of memories taken without regard to it, shape (k,).
        personal: The criterion of the salience score, 0 to 10, shape (n,); 0 where a memory isn't scored yet.
        reminders: Their flags, as `bridges.read_flags` reads them, shape (n,); 0 where a memory isn't indexed yet.
        cues: Which of the cues that the conversation says they have, shape (n, cues).
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
    window: Sequence[str], asked: Sequence[Term], total: int, forms: Mapping[str, Sequence[str]]
) -> list[WeighedWord]:
    """Return the content words of a conversation with their weights; those that the index passes over are left out.

    Args:
        window: The messages, the newest first.
        asked: Their words and the words' irregular forms, with how many memories have each.
        total: All memories.
        forms: Irregular forms by the word they belong to.
    """
    documents: dict[str, dict[str, int]] = {}
    for term in asked:
        if term.spelling is not None:
            documents.setdefault(term.spelling, {})[term.lexeme] = term.documents
    found = []
    for spelling, fade in emphasis(window).items():
        own = documents.get(spelling)
        if not own:
            continue
        others = {lexeme: n for form in forms.get(spelling, ()) for lexeme, n in documents.get(form, {}).items()}
        most = max({**others, **own}.values())
        found.append(WeighedWord(spelling, frozenset(own | others), fade * rarity(most, total), most > 0))
    return found


def fades(words: Sequence[WeighedWord], emphasis: Mapping[str, float]) -> dict[str, float]:
    """Return each lexeme of a conversation with how much the messages since have faded it, 0 to 1.

    Args:
        words: Its content words.
        emphasis: Their fading by spelling, as `request.emphasis` has it.
    """
    found: dict[str, float] = {}
    for word in words:
        for lexeme in word.lexemes:
            found[lexeme] = max(emphasis[word.spelling], found.get(lexeme, 0.0))
    return found


def cue_values(cues: Mapping[str, int], faded: Mapping[str, float], total: int) -> Floats:
    """Return the value of each cue that a conversation says, 0 to 1, shape (cues,).

    It is the cue's rarity among the memories, faded as the word of the cue is that was said the longest ago.

    Args:
        cues: Their stems, lexemes with blanks between, with how many memories have each.
        faded: Lexemes of the conversation, as `fades` has them.
        total: All memories.
    """
    return np.array([min(faded[each] for each in stem.split(" ")) * rarity(held, total) for stem, held in cues.items()])


def shared_words(words: Sequence[WeighedWord], evidence: Evidence) -> Floats:
    """Return the share of a conversation's words that each memory has, by weight, 0 to 1, shape (n,).

    Words of the same lexemes count once, as the heaviest of them; a word that only the neighbouring turns say counts
    `SAID_BEFORE`.
    """
    weights: dict[frozenset[str], float] = {}
    for word in words:
        weights[word.lexemes] = max(word.weight, weights.get(word.lexemes, 0.0))
    places = {lexeme: place for place, lexeme in enumerate(evidence.lexemes)}
    worth = np.where(evidence.own, 1.0, SAID_BEFORE * evidence.near)
    mass = np.zeros(len(worth))
    for lexemes, weight in weights.items():
        held = [places[lexeme] for lexeme in lexemes if lexeme in places]
        if held:
            mass += weight * worth[:, held].max(axis=1)
    return mass / max(sum(weights.values()), 1e-9)


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
