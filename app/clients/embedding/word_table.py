"""Words with the tokens that they are made of, as arrays, so that many are looked up without a Python object each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.intp]


class WordTable:
    """Words by row; a row never changes, and rows are only added. One object may be used by many threads."""

    def __init__(self, encode: Callable[[Sequence[str]], Sequence[Sequence[int]]]) -> None:
        """Begin empty.

        Args:
            encode: Returns the token ids of each of some words; a word may have none.
        """
        self._encode = encode
        self._rows: dict[str, int] = {}
        self._tokens = np.zeros(0, np.intp)
        self._ends = np.zeros(1, np.intp)
        self._adding = Lock()

    def __len__(self) -> int:
        """Return how many words there are."""
        return len(self._rows)

    def rows(self, words: Sequence[str]) -> Places:
        """Return the row of each word, shape (n,); unknown words are added."""
        rows = list(map(self._rows.get, words))
        if None in rows:
            self._add(dict.fromkeys(word for word, row in zip(words, rows, strict=True) if row is None))
            rows = list(map(self._rows.__getitem__, words))
        return np.array(rows, np.intp)

    def tokens(self, rows: Places) -> tuple[Places, Places]:
        """Return the tokens of words one after another, shape (tokens,), and how many each word has, shape (n,)."""
        ends = self._ends
        sizes = ends[rows + 1] - ends[rows]
        return self._tokens[spread(ends[rows], sizes)], sizes

    def _add(self, words: Iterable[str]) -> None:
        with self._adding:
            fresh = [word for word in words if word not in self._rows]
            encoded = self._encode(fresh)
            first = len(self._rows)
            sizes = np.array([len(ids) for ids in encoded], np.intp)
            flat = np.array([token for ids in encoded for token in ids], np.intp)
            # A reader that has a row reads arrays that hold it: they are there before the row is.
            self._tokens = np.concatenate((self._tokens, flat))
            self._ends = np.concatenate((self._ends, self._ends[-1] + np.cumsum(sizes)))
            self._rows.update(zip(fresh, range(first, first + len(fresh)), strict=True))


def spread(starts: Places, sizes: Places) -> Places:
    """Return the places start, start + 1, … of runs of these sizes, one run after another."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if ends.size else 0
    return np.asarray(np.arange(total) + np.repeat(starts - (ends - sizes), sizes), np.intp)


def firsts(sizes: Places) -> Places:
    """Return where each of consecutive runs of these sizes, all at least 1, begins; for `ufunc.reduceat`."""
    return np.concatenate((np.zeros(1, np.intp), np.cumsum(sizes)[:-1]))
