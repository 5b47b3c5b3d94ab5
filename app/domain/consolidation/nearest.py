"""The nearest of some memories among very many, whose vectors come in pieces: none is kept longer than its piece."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.bytes_]
"""16 bytes each, `S16`, which compare like the ids do."""


class Nearest:
    """The best so far of each of some memories, by cosine; of equals the one that came first."""

    def __init__(self, vectors: NDArray[np.float32], most: int, above: float) -> None:
        """Begin with none.

        Args:
            vectors: Of the memories, of length 1 or 0, shape (n, dimensions).
            most: How many of the nearest are kept of each.
            above: The cosine that all must be above.
        """
        self._vectors = vectors
        self._most = most
        self._cosines = np.full((len(vectors), most), above, np.float32)
        self._ids: Ids = np.zeros((len(vectors), most), "S16")

    def compare(self, rows: NDArray[np.intp], ids: Ids, vectors: NDArray[np.float32]) -> None:
        """Look for nearer ones of these rows in a piece; ids and vectors have shape (m,) and (m, dimensions)."""
        most = self._most
        cosines = self._vectors[rows] @ vectors.T
        better = np.flatnonzero(cosines > self._cosines[rows, -1:])  # far faster than `nonzero` of two axes
        row, column = np.divmod(better, len(ids))
        crowded = np.flatnonzero(np.bincount(row, minlength=len(rows)) > 4 * most)
        if crowded.size:
            least = np.full(len(rows), -np.inf, np.float32)
            least[crowded] = np.partition(cosines[crowded], -most, axis=1)[:, -most]
            among = cosines[row, column] >= least[row]
            row, column = row[among], column[among]
        if not row.size:
            return
        all_rows = np.concatenate([np.repeat(np.arange(len(rows)), most), row])
        all_cosines = np.concatenate([self._cosines[rows].ravel(), cosines[row, column]])
        all_ids = np.concatenate([self._ids[rows].ravel(), ids[column]])
        order = np.lexsort((-all_cosines, all_rows))  # stable, so that of equals the first stays
        sorted_rows = all_rows[order]
        kept = order[np.arange(len(order)) - np.searchsorted(sorted_rows, sorted_rows) < most]
        self._cosines[rows] = all_cosines[kept].reshape(len(rows), most)
        self._ids[rows] = all_ids[kept].reshape(len(rows), most)

    def found(self) -> Ids:
        """All that are among the nearest of any, each once, in ascending order."""
        ids: Ids = np.unique(self._ids)
        there: Ids = ids[ids != b""]
        return there
