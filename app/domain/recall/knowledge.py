"""Estimate by form how much of a memory is knowledge: a question or a greeting tells little about its speaker."""

from __future__ import annotations

import re
from typing import Final

from app.domain.recall.conversation_features import is_question, names_inside, split_sentences
from app.domain.recall.english import english
from app.domain.text.words import STOP_WORDS, split_words

STATEMENT: Final = 1.0
PRESUPPOSITION: Final = 0.5
"""Knowledge of a question that presupposes something: "is it ok for my nut allergy?"."""
QUESTION: Final = 0.005
"""Knowledge of any other question, and of greetings and thanks: no default threshold lets them pass."""
_QUESTION_MAX_CHARACTERS: Final = 1_000
"""Length above which a text counts as a statement, without a check of its sentences."""
_STOP_WORDS_MIN: Final = 0.25
"""Least share of stop words in a text that counts as English; the forms of other languages are unknown."""
_DIGIT: Final = re.compile(r"\d")


def knowledge(text: str) -> float:
    """Return the factor, 0 to 1, by which the form of an English text reduces its worth; 1 for a statement.

    A text counts as a question if all of its sentences are questions or small talk. What a question presupposes is
    knowledge: a possession of the speaker (my, our), a statement of the speaker, a name or a number.
    """
    if len(text) > _QUESTION_MAX_CHARACTERS:
        return STATEMENT
    sentences = [sentence for sentence in split_sentences(text) if not _is_small_talk(sentence)]
    if not all(map(_asks, sentences)):
        return STATEMENT
    asked = " ".join(sentences)
    if sentences and not _is_english(asked):
        return STATEMENT
    rules = english()
    presupposes = (
        rules.personal.search(rules.inverted.sub("", asked)) is not None
        or _DIGIT.search(asked) is not None
        or any(map(names_inside, sentences))
    )
    return PRESUPPOSITION if presupposes else QUESTION


def _asks(sentence: str) -> bool:
    return is_question(sentence) or english().question.match(sentence) is not None


def _is_small_talk(sentence: str) -> bool:
    """Return true if a sentence has at least one word, and all of its content words are small talk."""
    words = split_words(sentence)
    return bool(words) and all(word in STOP_WORDS or word in english().small_talk for word in words)


def _is_english(text: str) -> bool:
    words = split_words(text)
    return sum(word in STOP_WORDS for word in words) >= _STOP_WORDS_MIN * len(words)
