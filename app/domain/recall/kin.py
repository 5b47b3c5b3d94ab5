"""Kin words: a word of a conversation whose nearest word in a memory is unusually close to it.

A cosine alone says little, because some words are close to many others. Each word's cosines are therefore measured
against its own usual ones, those with the common words of the vocabulary.
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
"""Standard deviations above the usual cosine where kinship begins, and over which it grows to 1."""

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Usual:
    """The common words of a vocabulary, as the cosines with them need them.

    Attributes:
        mean: Mean of their unit vectors, shape (dimensions,).
        second: Mean outer product of their unit vectors, shape (dimensions, dimensions).
    """

    mean: Floats
    second: Floats

    @classmethod
    def from_vectors(cls, vectors: Vectors) -> Usual:
        """Return the moments of unit vectors, shape (n, dimensions)."""
        exact = np.asarray(vectors, np.float64)
        return cls(exact.mean(axis=0), exact.T @ exact / max(len(exact), 1))

    def cosines(self, words: Vectors) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of each word's cosines with the common words, shape (n,) each."""
        exact = np.asarray(words, np.float64)
        mean = exact @ self.mean
        variance = np.einsum("nd,de,ne->n", exact, self.second, exact) - mean**2
        return mean, np.sqrt(np.maximum(variance, 0.0))


def kinship(
    asked: Vectors,
    weights: Floats,
    usual: Usual,
    windows: Sequence[Sequence[Sequence[int]]],
    held: Vectors,
    same: npt.NDArray[np.bool_],
) -> Floats:
    """Return the kinship of each of n memories, 0 to 1, shape (n,).

    The best over the words of the conversation and the windows of a memory that lack the word: the word's weight times
    the kinship of the nearest word in the window.

    Args:
        asked: Unit vectors of the conversation's words, shape (k, dimensions).
        weights: Their weights, 0 to 1, shape (k,).
        usual: The common words.
        windows: For each memory, for each of its windows, the places of its words among `held`.
        held: Unit vectors of the distinct words of the memories, shape (m, dimensions).
        same: Which of them are forms of the same word, shape (k, m).
    """
    found = np.zeros(len(windows))
    filled = [(memory, places) for memory, each in enumerate(windows) for places in each if places]
    if not filled or not len(asked):
        return found
    flat = np.array([place for _, places in filled for place in places])
    starts = np.cumsum([0, *(len(places) for _, places in filled[:-1])])
    mean, deviation = usual.cosines(asked)
    nearest = np.maximum.reduceat((asked @ held.T)[:, flat], starts, axis=1)
    lacks = ~np.logical_or.reduceat(same[:, flat], starts, axis=1)
    above = (nearest - mean[:, None]) / np.maximum(deviation, 1e-6)[:, None]
    degree = np.clip((above - _FROM) / _SPAN, 0, 1) * lacks * weights[:, None]
    np.maximum.at(found, [memory for memory, _ in filled], degree.max(axis=0))
    return found
