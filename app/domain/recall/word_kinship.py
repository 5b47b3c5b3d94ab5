"""Score kin words: words of a conversation whose nearest word in a memory is unusually close.

Raw cosines of different words aren't comparable, because some words are close to many others. Each word's cosines are
therefore standardised by the mean and standard deviation of its cosines with the common words of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.ops import Floats

_FROM: Final = 3.0
_SPAN: Final = 12.0
"""Kinship starts at `_FROM` standard deviations above the mean cosine and reaches 1 after another `_SPAN`."""

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class CommonWordMoments:
    """Moments of the vocabulary's common words, from which the distribution of cosines with these words is computed.

    Attributes:
        mean: Mean of the words' unit vectors, shape (dimensions,).
        second: Mean outer product of each unit vector with itself, shape (dimensions, dimensions).
    """

    mean: Floats
    second: Floats

    @classmethod
    def from_vectors(cls, vectors: Vectors) -> CommonWordMoments:
        """Compute the moments of unit vectors, shape (n, dimensions)."""
        exact = np.asarray(vectors, np.float64)
        return cls(exact.mean(axis=0), exact.T @ exact / max(len(exact), 1))

    def cosines(self, words: Vectors) -> tuple[Floats, Floats]:
        """Return the mean and standard deviation of each word's cosines with the common words, shape (n,) each."""
        exact = np.asarray(words, np.float64)
        mean = exact @ self.mean
        variance = np.einsum("nd,de,ne->n", exact, self.second, exact) - mean**2
        return mean, np.sqrt(np.maximum(variance, 0.0))


def compute_kinship(
    asked: Vectors,
    weights: Floats,
    usual: CommonWordMoments,
    windows: Sequence[Sequence[Sequence[int]]],
    held: Vectors,
    same: npt.NDArray[np.bool_],
) -> Floats:
    """Return the kinship of each of n memories, 0 to 1, shape (n,).

    The kinship of a memory is the maximum over all pairs of a word of the conversation and a window of the memory that
    doesn't contain the word. The value of a pair is the word's weight times the kinship of the window's nearest word.

    Args:
        asked: Unit vectors of the conversation's words, shape (k, dimensions).
        weights: Weights of these words, 0 to 1, shape (k,).
        usual: Moments of the common words.
        windows: Per memory and window, the indexes of the window's words in `held`.
        held: Unit vectors of the distinct words of all memories, shape (m, dimensions).
        same: True where a word of `held` is a form of a word of the conversation, shape (k, m).
    """
    kinship = np.zeros(len(windows))
    filled = [(memory, places) for memory, memory_windows in enumerate(windows) for places in memory_windows if places]
    if not filled or not len(asked):
        return kinship
    flat = np.array([place for _, places in filled for place in places])
    starts = np.cumsum([0, *(len(places) for _, places in filled[:-1])])
    mean, deviation = usual.cosines(asked)
    nearest = np.maximum.reduceat((asked @ held.T)[:, flat], starts, axis=1)
    is_absent = ~np.logical_or.reduceat(same[:, flat], starts, axis=1)
    above = (nearest - mean[:, None]) / np.maximum(deviation, 1e-6)[:, None]
    degree = np.clip((above - _FROM) / _SPAN, 0, 1) * is_absent * weights[:, None]
    np.maximum.at(kinship, [memory for memory, _ in filled], degree.max(axis=0))
    return kinship
