"""Ask for a memory in other words than its own, by rules: as a person does who has forgotten its wording."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from app.domain.consolidation.coherence import marks, stem, stems
from app.domain.evaluation.questions import WORDS_MAX
from app.domain.text.inflection import other_forms
from app.domain.text.wording import first_content_words, is_in_first_person

SHARE: Final = 0.5
"""Share of a run's sampled memories that are asked for in other words too, and by recall."""
DROPPED: Final = 3
"""One of so many words is dropped, the rarest first: they tell a memory best."""
OWN_MAX: Final = 2
"""Words of a question that are the memory's own: its rarest names and numbers, or else common words."""
WORDS_MIN: Final = 2
"""Words of a question, of the memory's own where there are too few others."""
NEAR_MIN: Final = 0.4
"""Least cosine of a word and the one that replaces it."""
NEAR_WORDS: Final = 8
"""Words near to one that are tried: the nearest are often its own forms."""

_LETTERS_MIN: Final = 4
_ALIKE: Final = 3  # words that begin with so many letters alike are forms of one


def sampled(most: int) -> int:
    """Return how many of at most so many sampled memories are asked for in other words."""
    return math.ceil(SHARE * most)


def exchangeable(text: str) -> list[str]:
    """Return the first content words of a text, each once, for which others may stand: no names, no numbers."""
    fixed = marks(text)
    return [word for word in dict.fromkeys(first_content_words(text)) if stem(word) not in fixed]


def ask_in_other_words(text: str, documents: Mapping[str, int], near: Mapping[str, Sequence[str]]) -> str:
    """Return a question about a text's beginning: its rarest names, and words near to its own in meaning.

    A word without a near one is asked for in another form, or as it is.

    Args:
        text: One that `questions.can_be_asked`.
        documents: In how many memories each word is; one that is missing is in none.
        near: Words near in meaning to each of `exchangeable(text)`, the nearest first.
    """
    said = list(dict.fromkeys(first_content_words(text)))
    rarest_first = sorted(said, key=lambda word: documents.get(word, 0))
    free = set(exchangeable(text))
    own = [word for word in rarest_first if word in free]
    taken, stands_for = stems(text), dict[str, str]()
    for word in own[len(own) // DROPPED :]:
        other = next(
            (other for other in near.get(word, ()) if _is_another(other, word) and stem(other) not in taken), None
        )
        if other and len(stands_for) < WORDS_MAX:
            stands_for[word] = other
            taken.add(stem(other))
    kept = [word for word in rarest_first if word not in free] + [word for word in own[::-1] if word not in stands_for]
    for word in kept[: max(OWN_MAX, WORDS_MIN - len(stands_for))]:
        stands_for[word] = (other_forms(word) or (word,))[0]
    asked = [stands_for[word] for word in said if word in stands_for]
    about = " ".join(asked)
    return f"What did I say about my {about}?" if is_in_first_person(text) else f"What do you know about {about}?"


def _is_another(other: str, word: str) -> bool:
    """Return whether a word is neither a form nor a piece of another, nor a stop word."""
    return len(other) >= _LETTERS_MIN and other[:_ALIKE] != word[:_ALIKE] and bool(first_content_words(other))
