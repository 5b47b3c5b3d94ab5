"""Store words with their tokens in arrays, so that bulk look-ups create no Python object per word."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from threading import Lock

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.intp]


class WordTable:
    """Append-only table of words, one row per word; rows never change; thread-safe."""

    def __init__(self, encode: Callable[[Sequence[str]], Sequence[Sequence[int]]]) -> None:
        """Create an empty table.

        Args:
            encode: Returns the token ids of each word; a word may have none.
        """
        self._encode = encode
        self._rows: dict[str, int] = {}
        self._tokens = np.zeros(0, np.intp)
        self._ends = np.zeros(1, np.intp)
        self._adding = Lock()

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self._rows)

    def rows(self, words: Sequence[str]) -> Places:
        """Return the row of each word, shape (n,), adding unknown words."""
        rows = np.fromiter(map(self._rows.get, words, repeat(-1)), np.intp, len(words))
        unknown = np.flatnonzero(rows < 0)
        if unknown.size:
            self._add(dict.fromkeys(words[place] for place in unknown.tolist()))
            rows[unknown] = [self._rows[words[place]] for place in unknown.tolist()]
        return rows

    def tokens(self, rows: Places) -> tuple[Places, Places]:
        """Return the concatenated tokens of words, shape (tokens,), and each word's number of tokens, shape (n,)."""
        ends = self._ends
        sizes = ends[rows + 1] - ends[rows]
        return self._tokens[concatenate_ranges(ends[rows], sizes)], sizes

    def _add(self, words: Iterable[str]) -> None:
        with self._adding:
            fresh = [word for word in words if word not in self._rows]
            encoded = self._encode(fresh)
            first = len(self._rows)
            sizes = np.array([len(ids) for ids in encoded], np.intp)
            flat = np.array([token for ids in encoded for token in ids], np.intp)
            # The arrays are replaced before the row is published, so that a reader with a row always finds its tokens.
            self._tokens = np.concatenate((self._tokens, flat))
            self._ends = np.concatenate((self._ends, self._ends[-1] + np.cumsum(sizes)))
            self._rows.update(zip(fresh, range(first, first + len(fresh)), strict=True))


def concatenate_ranges(starts: Places, sizes: Places) -> Places:
    """Return the concatenated ranges start, start + 1, … of these sizes."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if ends.size else 0
    return np.asarray(np.arange(total) + np.repeat(starts - (ends - sizes), sizes), np.intp)


def index_distinct(numbers: Places, size: int) -> tuple[Places, Places]:
    """Return the distinct numbers in ascending order, and the index of each number among them.

    Like `np.unique`, but without sorting.

    Args:
        numbers: From 0 to below `size`.
    """
    occurs = np.zeros(size, np.bool_)
    occurs[numbers] = True
    distinct = np.flatnonzero(occurs)
    places = np.empty(size, np.intp)
    places[distinct] = np.arange(distinct.size)
    return distinct, places[numbers]


def run_starts(sizes: Places) -> Places:
    """Return the start of each of consecutive runs of these sizes, all at least 1; for `ufunc.reduceat`."""
    return np.concatenate((np.zeros(1, np.intp), np.cumsum(sizes)[:-1]))
