"""Vectors made shorter by a principal component analysis, so that their cosines stay as they were as far as can be.

The basis isn't centred: it holds the directions along which vectors of length 1 are longest, so that an inner product
of two reduced vectors is the cosine of the whole ones, but for what lies outside of the basis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]

DIMENSIONS: Final = 128
"""Of a reduced vector."""
SAMPLES_MIN: Final = 2 * DIMENSIONS
"""Vectors to fit on; fewer would be learnt by heart."""
SAMPLES_MAX: Final = 5000
SUBJECT_MAX: Final = SAMPLES_MAX // 10
"""Vectors about one subject in a sample: nobody makes up more than a tenth of the largest."""
_PROVING: Final = 10
"""Each so many of a sample, the variance is measured on one; the others are what is fitted on."""


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """What vectors of one embedding space are reduced by.

    Attributes:
        matrix: shape (reduced, dimensions), rows of length 1 at right angles.
        mean: shape (dimensions,), of the sample.
        variance_kept: Share of the variance about the mean that is left, 0 to 1, of vectors that it wasn't fitted on.
        samples: Vectors in the sample.
    """

    matrix: Vectors
    mean: Vectors
    variance_kept: float
    samples: int

    @property
    def dimensions(self) -> int:
        """Length of the vectors that it reduces."""
        return int(self.matrix.shape[1])


def fit(sample: Vectors, dimensions: int = DIMENSIONS) -> Basis | None:
    """The basis of a sample; None where vectors are short already, or too few.

    Args:
        sample: Vectors of length 1 in any order, shape (n, whole); what isn't finite or has no direction is left out.
        dimensions: Of a reduced vector.
    """
    sample = sample[np.isfinite(sample).all(axis=1) & sample.any(axis=1)]
    if sample.shape[0] < max(SAMPLES_MIN, 2 * dimensions) or sample.shape[1] <= dimensions:
        return None
    is_proof = np.arange(len(sample)) % _PROVING == 0
    fitted = sample[~is_proof].astype(np.float64)
    _, vectors = np.linalg.eigh(fitted.T @ fitted)  # ascending
    matrix = np.ascontiguousarray(vectors[:, : -dimensions - 1 : -1].T, np.float32)
    mean = fitted.mean(axis=0).astype(np.float32)
    return Basis(matrix, mean, variance_kept(matrix, mean, sample[is_proof]), len(sample))


def variance_kept(matrix: Vectors, mean: Vectors, vectors: Vectors) -> float:
    """Share of the variance about a mean that is left after a reduction, 0 to 1; 1 where there is none.

    Args:
        matrix: A basis's.
        mean: shape (dimensions,).
        vectors: shape (n, dimensions).
    """
    about = vectors.astype(np.float64) - mean
    whole = float(np.square(about).sum())
    left = float(np.square(about @ matrix.T).sum())
    return min(left / whole, 1.0) if whole > 0 else 1.0


def reduced(basis: Basis, vectors: Vectors) -> Vectors:
    """Vectors in a basis, shape (n, reduced) or (reduced,): inner products are as between the whole ones, nearly.

    Args:
        basis: Of their embedding space.
        vectors: shape (n, dimensions) or (dimensions,).

    Raises:
        ValueError: They are of another length than the basis's.
    """
    if vectors.shape[-1] != basis.dimensions:
        raise ValueError(f"vectors of {vectors.shape[-1]} dimensions, and a basis of {basis.dimensions}")
    return np.asarray(vectors @ basis.matrix.T, np.float32)


def drawn(subjects: Sequence[str | None], limit: int = SAMPLES_MAX) -> list[int]:
    """Places of those that make up a sample, in their order: the first ones, with no subject beyond `SUBJECT_MAX`.

    Args:
        subjects: Whom each is about, in random order; None for nobody in particular.
        limit: Most of them.
    """
    counts: dict[str, int] = {}
    places: list[int] = []
    for place, subject in enumerate(subjects):
        if len(places) == limit:
            break
        if subject is not None:
            counts[subject] = counts.get(subject, 0) + 1
            if counts[subject] > SUBJECT_MAX:
                continue
        places.append(place)
    return places
