"""Find the nearest neighbours of some memories among very many, which are read once, in blocks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.bytes_]
"""Ids of 16 bytes each, `S16`; they sort like the UUIDs."""


class Nearest:
    """Best matches so far of some memories, by cosine; of equal cosines, the one compared first wins."""

    def __init__(self, vectors: NDArray[np.float32], most: int, above: float) -> None:
        """Start without matches.

        Args:
            vectors: Vectors of the memories, each with norm 1 or 0, shape (n, dimensions).
            most: Number of matches to retain per memory.
            above: Cosine that every match must exceed.
        """
        self._vectors = vectors
        self._most = most
        self._cosines = np.full((len(vectors), most), above, np.float32)
        self._ids: Ids = np.zeros((len(vectors), most), "S16")

    def compare(self, rows: NDArray[np.intp], ids: Ids, vectors: NDArray[np.float32]) -> None:
        """Update the matches of these rows with a block of m memories: `ids` (m,) and `vectors` (m, dimensions)."""
        most = self._most
        cosines = self._vectors[rows] @ vectors.T
        better = np.flatnonzero(cosines > self._cosines[rows, -1:])  # far faster than `nonzero` on two axes
        row, column = np.divmod(better, len(ids))
        crowded = np.flatnonzero(np.bincount(row, minlength=len(rows)) > 4 * most)
        if crowded.size:
            least = np.full(len(rows), -np.inf, np.float32)
            least[crowded] = np.partition(cosines[crowded], -most, axis=1)[:, -most]
            passing = cosines[row, column] >= least[row]
            row, column = row[passing], column[passing]
        if not row.size:
            return
        all_rows = np.concatenate([np.repeat(np.arange(len(rows)), most), row])
        all_cosines = np.concatenate([self._cosines[rows].ravel(), cosines[row, column]])
        all_ids = np.concatenate([self._ids[rows].ravel(), ids[column]])
        order = np.lexsort((-all_cosines, all_rows))  # stable, so the first of equal cosines wins
        sorted_rows = all_rows[order]
        best = order[np.arange(len(order)) - np.searchsorted(sorted_rows, sorted_rows) < most]
        self._cosines[rows] = all_cosines[best].reshape(len(rows), most)
        self._ids[rows] = all_ids[best].reshape(len(rows), most)

    def matched_ids(self) -> Ids:
        """Return the ids of all matches, each once, in ascending order."""
        ids: Ids = np.unique(self._ids)
        matched: Ids = ids[ids != b""]
        return matched
