"""Synthetic memories and queries: a seeded vocabulary with Zipf's distribution, short texts in threads.

Real texts exist only in fixed quantities. The properties that affect speed (text lengths, word repetition, thread
lengths) are set to the values of real conversations.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import accumulate, pairwise

import msgspec

VOCABULARY = 20_000
WORDS_A_TEXT = (8, 26)  # about 120 bytes on average
TURNS_A_THREAD = 20
SPEAKERS = ("Ada", "Ben", "Cleo", "Dan")
_SYLLABLES = tuple(a + b for a in (*"bcdfghjklmnprstvwz", "ch", "st", "tr") for b in "aeiou")
# The commonest words of English come first, as stop words do in any text.
_COMMON = """
the and to of a in is that for it was on are with as at be this have from or by not but what all were when we there
can an your which their said if do will each about how up out them then she many some so these
"""


class Corpus:
    """A generator of texts; the same seed gives the same texts."""

    def __init__(self, seed: int = 7) -> None:
        """Create the vocabulary, which is the same for every seed."""
        made = dict.fromkeys(_COMMON.split())
        chance = random.Random(VOCABULARY)  # noqa: S311 - invented words, no secret
        while len(made) < VOCABULARY:
            made["".join(chance.choices(_SYLLABLES, k=chance.randint(2, 4)))] = None
        self._random = random.Random(seed)  # noqa: S311 - as above
        self._words = list(made)
        self._weights = list(accumulate(1 / (rank + 2.7) for rank in range(VOCABULARY)))

    def texts(self, count: int) -> Iterator[str]:
        """Yield `count` texts of about 120 bytes."""
        lengths = self._random.choices(range(*WORDS_A_TEXT), k=count)
        words = self._random.choices(self._words, cum_weights=self._weights, k=sum(lengths))
        ends = [0, *accumulate(lengths)]
        return (" ".join(words[start:end]).capitalize() + "." for start, end in pairwise(ends))

    def memories(self, count: int, first_thread: int = 0) -> list[dict[str, str]]:
        """Return `count` memories in the format of a caller, thread by thread."""
        return [
            {
                "text": text,
                "thread": f"thread-{first_thread + place // TURNS_A_THREAD}",
                "speaker": SPEAKERS[place % len(SPEAKERS)],
            }
            for place, text in enumerate(self.texts(count))
        ]

    def queries(self, count: int) -> list[str]:
        """Return questions of four to nine words, common and rare ones."""
        return [" ".join(text.split()[: self._random.randint(4, 9)]) for text in self.texts(count)]

    def bodies(self, requests: int, memories: int) -> list[bytes]:
        """Return request bodies of `memories` memories each: an object for one, an array for more."""
        given = self.memories(requests * memories)
        lots = [given[start : start + memories] for start in range(0, len(given), memories)]
        return [msgspec.json.encode(lot[0] if memories == 1 else lot) for lot in lots]
