"""Reduce vectors by principal component analysis with minimal change to their cosines.

The vectors aren't centred before the analysis: the basis spans the directions in which unit vectors have the largest
mean squared components. The inner product of two reduced vectors therefore equals the cosine of the original vectors,
except for components outside the basis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]

DIMENSIONS: Final = 128
"""Dimensions of a reduced vector."""
SAMPLES_MIN: Final = 2 * DIMENSIONS
"""Minimum sample size; a smaller one would overfit."""
SAMPLES_MAX: Final = 5000
SUBJECT_MAX: Final = SAMPLES_MAX // 10
"""Maximum number of vectors per subject in a sample: at most a tenth of the largest sample."""
_PROVING: Final = 10
"""One in this many sample vectors is held out to measure the variance; the basis is fitted to the others."""


@dataclass(frozen=True, slots=True, eq=False)
class PcaBasis:
    """Reduction of the vectors of one embedding space.

    Attributes:
        matrix: Orthonormal rows, shape (reduced, dimensions).
        mean: Mean of the sample, shape (dimensions,).
        variance_kept: Share of the variance about the mean that is retained, 0 to 1, measured on held-out vectors.
        samples: Size of the sample.
    """

    matrix: Vectors
    mean: Vectors
    variance_kept: float
    samples: int

    @property
    def dimensions(self) -> int:
        """Dimensions of the vectors before reduction."""
        return int(self.matrix.shape[1])


def fit_basis(sample: Vectors, dimensions: int = DIMENSIONS) -> PcaBasis | None:
    """Fit a basis to a sample; None if the vectors are short enough already or too few.

    Args:
        sample: Unit vectors in any order, shape (n, original dimensions); non-finite and zero vectors are ignored.
        dimensions: Dimensions of a reduced vector.
    """
    sample = sample[np.isfinite(sample).all(axis=1) & sample.any(axis=1)]
    if sample.shape[0] < max(SAMPLES_MIN, 2 * dimensions) or sample.shape[1] <= dimensions:
        return None
    is_held_out = np.arange(len(sample)) % _PROVING == 0
    fitted = sample[~is_held_out].astype(np.float64)
    _, vectors = np.linalg.eigh(fitted.T @ fitted)  # ascending
    matrix = np.ascontiguousarray(vectors[:, : -dimensions - 1 : -1].T, np.float32)
    mean = fitted.mean(axis=0).astype(np.float32)
    return PcaBasis(matrix, mean, variance_kept(matrix, mean, sample[is_held_out]), len(sample))


def variance_kept(matrix: Vectors, mean: Vectors, vectors: Vectors) -> float:
    """Return the share of the variance about a mean that a reduction retains, 0 to 1; 1 if there is no variance.

    Args:
        mean: shape (dimensions,).
        vectors: shape (n, dimensions).
    """
    centred = vectors.astype(np.float64) - mean
    total = float(np.square(centred).sum())
    retained = float(np.square(centred @ matrix.T).sum())
    return min(retained / total, 1.0) if total > 0 else 1.0


def reduce_vectors(basis: PcaBasis, vectors: Vectors) -> Vectors:
    """Reduce vectors to shape (n, reduced) or (reduced,), approximately preserving inner products.

    Args:
        vectors: shape (n, dimensions) or (dimensions,).

    Raises:
        ValueError: The vectors' dimensions differ from the basis's.
    """
    if vectors.shape[-1] != basis.dimensions:
        raise ValueError(f"the vectors have {vectors.shape[-1]} dimensions, but the basis expects {basis.dimensions}")
    return np.asarray(vectors @ basis.matrix.T, np.float32)


def draw_sample(subjects: Sequence[str | None], limit: int = SAMPLES_MAX) -> list[int]:
    """Return the indexes of a sample, in order: the first vectors, with at most `SUBJECT_MAX` per subject.

    Args:
        subjects: Subject of each vector, in random order; None for vectors without a subject.
        limit: Maximum sample size.
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
