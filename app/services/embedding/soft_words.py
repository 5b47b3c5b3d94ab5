"""Score how closely a memory's words match a query's words in meaning rather than in spelling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from app.clients.embedding.static_embedder import word_vectors
from app.domain.dynamics.ops import Floats
from app.domain.search.candidate_types import Candidate
from app.domain.search.passages import PassageFinder
from app.domain.text.words import split_heads

PASSAGE_SHARE: Final = 0.6
"""Weight of a passage relative to a text's beginning; below 1, since passages are selected by the query's words."""
BEGINNING_CHARACTERS: Final = 4_000
"""Text length up to which the beginning represents the text; a passage's weight rises towards 1 for longer texts."""


def match_words(rarity: Mapping[str, float], found: Sequence[Candidate]) -> Floats:
    """Return, for each candidate, the sum over the query's words of rarity · cosine of the closest candidate word.

    The bundled word vectors are used independently of the tenant's embedder. For a long text, only its first words or
    the words of the passage with most of the query's words count, so that length alone doesn't raise the score.

    Args:
        rarity: Rarity (idf) of each content word of the query.

    Returns:
        Shape (n,), at least 0.
    """
    if not rarity or not found:
        return np.zeros(len(found))
    passages = PassageFinder(rarity)
    passage_words = {
        position: words for position, candidate in enumerate(found) if (words := passages.find(candidate.text))
    }
    heads = split_heads([candidate.text for candidate in found])
    closest = word_vectors().closest(list(rarity), [*heads, *passage_words.values()])
    matched = np.asarray(closest @ np.array(list(rarity.values()), np.float64), np.float64)
    scores = matched[: len(found)]
    if passage_words:
        positions = list(passage_words)
        lengths = np.array([len(found[position].text) for position in positions])
        weights = 1 - (1 - PASSAGE_SHARE) * np.minimum(BEGINNING_CHARACTERS / lengths, 1)
        scores[positions] = np.maximum(scores[positions], weights * matched[len(found) :])
    return scores
