"""Soft words: how closely a memory's words match those of a query, in meaning rather than in spelling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from app.clients.static_embedder import word_vectors
from app.domain.dynamics.ops import Floats
from app.domain.retrieval.candidates import Candidate
from app.domain.wording import first_content_words


def match_words(rarity: Mapping[str, float], found: Sequence[Candidate]) -> Floats:
    """Return, for each candidate, the sum over the query's words of rarity · cosine of the closest of its words.

    The bundled word vectors serve whatever embedder the tenant has. Only a memory's first words count, so that a long
    text doesn't match by its length.

    Args:
        rarity: Rarity (idf) of each content word of the query.
        found: The candidates.

    Returns:
        Shape (n,), at least 0.
    """
    if not rarity or not found:
        return np.zeros(len(found))
    closest = word_vectors().closest(list(rarity), [first_content_words(candidate.text) for candidate in found])
    return closest @ np.array(list(rarity.values()), np.float64)
