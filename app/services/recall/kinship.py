"""Score how closely related the words of a conversation and of memories are, by the bundled word vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from app.clients.embedding.embedder import embedder
from app.clients.embedding.static_embedder import StaticEmbedder, word_vectors
from app.domain.consolidation.facts import stem
from app.domain.dynamics.ops import Floats
from app.domain.recall.relevance import WeighedWord
from app.domain.recall.word_kinship import compute_kinship
from app.domain.text.highlight import split_windows
from app.domain.text.words import content_words

CHARACTERS: Final = 6_000
"""Number of characters of a memory's text that are compared."""


def kinship_of_texts(words: Sequence[WeighedWord], texts: Sequence[str]) -> Floats:
    """Return the kinship of each text, 0 to 1, shape (n,).

    It is 0 with an embedder other than the bundled one: such an embedder's closeness covers related words already.
    """
    if not words or not isinstance(embedder(), StaticEmbedder):
        return np.zeros(len(texts))
    known = word_vectors()
    places: dict[str, int] = {}
    by_window = [
        [
            [places.setdefault(word, len(places)) for word in dict.fromkeys(content_words(text[start:end]))]
            for start, end in split_windows(text[:CHARACTERS])
        ]
        for text in texts
    ]
    asked = [word.spelling for word in words]
    numbers: dict[str, int] = {}
    stems, held = (
        np.array([numbers.setdefault(stem(word), len(numbers)) for word in each], np.intp) for each in (asked, places)
    )
    return compute_kinship(
        known.unit_vectors(asked),
        np.array([word.weight for word in words]),
        known.usual,
        by_window,
        known.unit_vectors(list(places)),
        stems[:, None] == held[None, :],
    )
