"""Build paraphrased questions by rule: questions of a person who has forgotten the memory's wording."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from app.domain.consolidation.faithfulness import name_stems, stem, stems
from app.domain.evaluation.question_generation import WORDS_MAX
from app.domain.text.inflection import other_forms
from app.domain.text.words import first_content_words, is_in_first_person

SHARE: Final = 0.5
"""Share of a run's sampled memories that are also tested with a paraphrased question, and through recall."""
DROPPED: Final = 3
"""One in this many replaceable words is dropped, rarest first, because rare words identify a memory best."""
OWN_MAX: Final = 2
"""Maximum number of the memory's own words in a question: its rarest names and numbers, then common words."""
WORDS_MIN: Final = 2
"""Minimum number of words in a question; if there are too few replacements, the memory's own words are added."""
NEAR_MIN: Final = 0.4
"""Minimum cosine between a word and its replacement."""
NEAR_WORDS: Final = 8
"""Number of similar words to consider; the most similar are often inflections of the word itself."""

_LETTERS_MIN: Final = 4
_ALIKE: Final = 3  # words that share this many first letters count as inflections of one word


def sample_size(most: int) -> int:
    """Return the number of memories in a sample of this size that are tested with a paraphrased question."""
    return math.ceil(SHARE * most)


def list_replaceable(text: str) -> list[str]:
    """Return the distinct replaceable words (neither names nor numbers) among a text's first content words."""
    fixed = name_stems(text)
    return [word for word in dict.fromkeys(first_content_words(text)) if stem(word) not in fixed]


def paraphrase_question(text: str, documents: Mapping[str, int], near: Mapping[str, Sequence[str]]) -> str:
    """Return a question about a text's beginning, made of its rarest names and of words similar to its other words.

    Words taken from the text itself are inflected if possible.

    Args:
        text: A text for which `question_generation.can_be_asked` holds.
        documents: Number of memories that contain each word; 0 for missing words.
        near: Similar words for each of `list_replaceable(text)`, the most similar first.
    """
    words = list(dict.fromkeys(first_content_words(text)))
    rarest_first = sorted(words, key=lambda word: documents.get(word, 0))
    replaceable = set(list_replaceable(text))
    replaceable_by_rarity = [word for word in rarest_first if word in replaceable]
    used_stems, replacements = stems(text), dict[str, str]()
    for word in replaceable_by_rarity[len(replaceable_by_rarity) // DROPPED :]:
        other = next(
            (other for other in near.get(word, ()) if _is_another(other, word) and stem(other) not in used_stems), None
        )
        if other and len(replacements) < WORDS_MAX:
            replacements[word] = other
            used_stems.add(stem(other))
    own_words = [word for word in rarest_first if word not in replaceable] + [
        word for word in replaceable_by_rarity[::-1] if word not in replacements
    ]
    for word in own_words[: max(OWN_MAX, WORDS_MIN - len(replacements))]:
        replacements[word] = (other_forms(word) or (word,))[0]
    question_words = [replacements[word] for word in words if word in replacements]
    about = " ".join(question_words)
    return f"What did I say about my {about}?" if is_in_first_person(text) else f"What do you know about {about}?"


def _is_another(other: str, word: str) -> bool:
    """Return whether `other` is neither an inflection of `word` nor a word fragment nor a stop word."""
    return len(other) >= _LETTERS_MIN and other[:_ALIKE] != word[:_ALIKE] and bool(first_content_words(other))
