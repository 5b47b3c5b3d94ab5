"""Ask for a memory in other words than its own, by rules: as somebody does who has forgotten its wording."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from app.domain.coherence import marks, stem, stems
from app.domain.inflection import other_forms
from app.domain.questions import WORDS_MAX
from app.domain.wording import first_content_words, is_in_first_person

SHARE: Final = 0.5
"""Share of a run's sampled memories that are asked for in other words too, and by recall."""
DROPPED: Final = 3
"""One of so many words is dropped, the rarest first: they tell a memory best."""
NAMES_MAX: Final = 2
"""Names and numbers of a question."""
NEAR_MIN: Final = 0.4
"""Cosine from which a word stands in for another."""
NEAR_WORDS: Final = 8
"""Words near to one that are tried: the nearest are often its own forms."""


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
    fixed = [word for word in rarest_first if word not in free][:NAMES_MAX]
    dropped = max(len(own) // DROPPED, 1) if len(own) + len(fixed) > 1 else 0
    chosen = {*fixed, *own[dropped : dropped + WORDS_MAX - len(fixed)]}
    taken, asked = stems(text), list[str]()
    for word in said:
        if word in chosen:
            others = [other for other in near.get(word, ()) if stem(other) not in taken]
            asked.append(others[0] if others else (other_forms(word) or (word,))[0])
            taken.add(stem(asked[-1]))
    about = " ".join(asked)
    return f"What did I say about my {about}?" if is_in_first_person(text) else f"What do you know about {about}?"
