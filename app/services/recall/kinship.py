"""Score how closely the words of memories are related to the words of a conversation, by the bundled word vectors."""

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
"""Number of characters at the start of a memory's text that are compared."""


def kinship_of_texts(words: Sequence[WeighedWord], texts: Sequence[str]) -> Floats:
    """Return the kinship of each text, 0 to 1, shape (n,).

    With any embedder other than the bundled one, all values are 0: the vectors of such an embedder already capture
    related words.
    """
    if not words or not isinstance(embedder(), StaticEmbedder):
        return np.zeros(len(texts))
    vectors = word_vectors()
    word_ids: dict[str, int] = {}
    words_by_window = [
        [
            [word_ids.setdefault(word, len(word_ids)) for word in dict.fromkeys(content_words(text[start:end]))]
            for start, end in split_windows(text[:CHARACTERS])
        ]
        for text in texts
    ]
    spellings = [word.spelling for word in words]
    stem_ids: dict[str, int] = {}
    conversation_stems, memory_stems = (
        np.array([stem_ids.setdefault(stem(word), len(stem_ids)) for word in side], np.intp)
        for side in (spellings, word_ids)
    )
    return compute_kinship(
        vectors.unit_vectors(spellings),
        np.array([word.weight for word in words]),
        vectors.usual,
        words_by_window,
        vectors.unit_vectors(list(word_ids)),
        conversation_stems[:, None] == memory_stems[None, :],
    )
