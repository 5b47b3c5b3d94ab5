"""Soft words: how closely a memory's words match those of a query, in meaning rather than in spelling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from app.clients.embedding.static_embedder import word_vectors
from app.domain.dynamics.ops import Floats
from app.domain.search.candidates import Candidate
from app.domain.search.passages import Passages
from app.domain.text.wording import first_content_words

PASSAGE_SHARE: Final = 0.6
"""Worth of a passage, as a share of a text's beginning: it was chosen by the query's words, so it always has some."""
BEGINNING_CHARACTERS: Final = 4_000
"""Length up to which a text's beginning stands for it; a passage of a longer text is worth more, up to as much."""


def match_words(rarity: Mapping[str, float], found: Sequence[Candidate]) -> Floats:
    """Return, for each candidate, the sum over the query's words of rarity · cosine of the closest of its words.

    The bundled word vectors serve whatever embedder the tenant has. Of a long text, either its first words count or
    those of the passage that holds most of the query's words, so that it doesn't match by its length.

    Args:
        rarity: Rarity (idf) of each content word of the query.
        found: The candidates.

    Returns:
        Shape (n,), at least 0.
    """
    if not rarity or not found:
        return np.zeros(len(found))
    passages = Passages(rarity)
    behind = {place: words for place, candidate in enumerate(found) if (words := passages.find(candidate.text))}
    texts = [first_content_words(candidate.text) for candidate in found]
    closest = word_vectors().closest(list(rarity), [*texts, *behind.values()])
    matched = np.asarray(closest @ np.array(list(rarity.values()), np.float64), np.float64)
    heads = matched[: len(found)]
    if behind:
        places = list(behind)
        lengths = np.array([len(found[place].text) for place in places])
        worth = 1 - (1 - PASSAGE_SHARE) * np.minimum(BEGINNING_CHARACTERS / lengths, 1)
        heads[places] = np.maximum(heads[places], worth * matched[len(found) :])
    return heads
