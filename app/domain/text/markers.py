"""Prefilter a batch: find the texts that contain a marker (a word or a part of one), so that only these are scanned.

Matching regular expressions against every text would take longer than all other indexing work in Python. A text without
any marker of a group is skipped; a text with a marker is scanned in full, so a superfluous marker only costs time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from string import ascii_lowercase, digits
from typing import Final

import numpy as np
from numpy.typing import NDArray

MARKER_SIZE: Final = 5
"""Number of characters of a marker that are compared; longer markers are truncated."""

_BITS: Final = 5
_SIGNS: Final = 1 << _BITS
_BLANK, _DIGIT, _AT, _COLON, _DASH, _OTHER = 0, 27, 28, 29, 30, 31
_NO_LETTERS: Final = (_BLANK, _AT, _COLON, _DASH, _OTHER)
_SIGN_OF: Final = (
    {letter: place for place, letter in enumerate(ascii_lowercase, 1)}
    | dict.fromkeys(digits, _DIGIT)
    | {"@": _AT, ":": _COLON, "-": _DASH, "?": _OTHER, "é": 5, "í": 9}
)
_TABLE: Final = bytes(_SIGN_OF.get(chr(code), _BLANK) for code in range(256))
_FULL_WIDTH_AT: Final = "\uff20"
_IRREGULAR: Final = "\u0130\u0131\u017f"
"""Non-ASCII letters that match i or s when case is ignored; a text with one of them counts as containing all markers.
"""


def marker(word: str) -> str:
    """Return a marker for a lower-case word.

    A word of up to four letters gets a blank on each side, a five-letter word is its own marker, and a longer word
    loses its first letter. Because only `MARKER_SIZE` characters are compared, the marker of a word of four or more
    letters also matches other words.
    """
    if len(word) < MARKER_SIZE:
        return f" {word} "
    return word if len(word) == MARKER_SIZE else word[1:]


class Signs:
    """A batch of texts, reduced to an alphabet of 32 symbols.

    Attributes:
        codes: Symbols of all texts in sequence, each text preceded by a blank, shape (characters,).
        starts: Index in `codes` of the blank before each text, shape (texts,).
        is_irregular: True for texts with a letter of `_IRREGULAR`, shape (texts,).
    """

    def __init__(self, texts: Sequence[str]) -> None:
        """Reduce texts to symbols, which ignore case, the accents of é and í, and most differences in punctuation."""
        whole = "\0".join(("", *texts))
        self.is_irregular = np.zeros(len(texts), np.bool_)
        if any(letter in whole for letter in _IRREGULAR):
            self.is_irregular[:] = [not text.isascii() and not set(_IRREGULAR).isdisjoint(text) for text in texts]
            for letter in _IRREGULAR:
                whole = whole.replace(letter, " ")
        plain = whole.lower().replace(_FULL_WIDTH_AT, "@").encode("latin-1", "replace")
        self._plain = plain + bytes(MARKER_SIZE)
        self.codes = np.frombuffer(self._plain.translate(_TABLE), np.uint8)
        sizes = np.fromiter(map(len, texts), np.intp, len(texts)) + 1
        self.starts = np.cumsum(sizes) - sizes

    def count(self, characters: str) -> NDArray[np.intp]:
        """Count these ASCII characters in each text, shape (texts,)."""
        wanted = bytes(chr(code) in characters for code in range(256))
        places = np.flatnonzero(np.frombuffer(self._plain.translate(wanted), np.bool_))
        return np.diff(np.searchsorted(places, np.append(self.starts, len(self._plain))))

    def has_run(self, size: int) -> NDArray[np.bool_]:
        """Return true for texts with at least `size` characters in a row without ASCII white space, shape (texts,)."""
        blank = bytes(chr(code) in "\0\t\n\v\f\r " for code in range(256))
        blanks = np.flatnonzero(np.frombuffer(self._plain.translate(blank), np.bool_))
        has_long_run = np.zeros(len(self.starts), np.bool_)
        run_starts = blanks[:-1][np.diff(blanks) > size]
        has_long_run[np.searchsorted(self.starts, run_starts, "right") - 1] = True
        return has_long_run


class Markers:
    """Groups of markers to find in batches of texts."""

    def __init__(self, groups: Mapping[str, Iterable[str]]) -> None:
        """Compile the markers of each group.

        In a marker, a blank matches the beginning or end of a text, or any character except a to z, é, í and digits. A
        digit matches any digit.

        Args:
            groups: At most 8 groups of lower-case markers, which may be longer than `MARKER_SIZE`.
        """
        self._names = list(groups)
        # A marker of five symbols is looked up as two overlapping runs of four symbols.
        heads = np.zeros((_SIGNS,) * 4, np.uint8)
        tails = np.zeros((_SIGNS,) * 4, np.uint8)
        for bit, markers in enumerate(groups.values()):
            for signs in chain.from_iterable(map(_spelled, markers)):
                heads[signs[:4]] |= np.uint8(1 << bit)
                tails[signs[1:]] |= np.uint8(1 << bit)
        self._heads, self._tails = heads.ravel(), tails.ravel()

    def find(self, signs: Signs) -> dict[str, NDArray[np.bool_]]:
        """Return, by group, true for the texts that contain a marker of the group, shape (texts,) each.

        False positives are possible: the head of one marker can occur together with the tail of another.
        """
        pairs = signs.codes[:-1].astype(np.uint32)
        pairs <<= _BITS
        pairs |= signs.codes[1:]
        fours = pairs[:-2] << (2 * _BITS)
        fours |= pairs[2:]
        hits = self._heads[fours[:-1]] & self._tails[fours[1:]]
        if not len(signs.starts):
            return {name: np.zeros(0, np.bool_) for name in self._names}
        groups = np.bitwise_or.reduceat(hits, signs.starts)
        return {name: (groups & np.uint8(1 << bit) != 0) | signs.is_irregular for bit, name in enumerate(self._names)}


def _spelled(marker: str) -> Iterator[tuple[int, ...]]:
    """Return all sequences of symbols that a marker matches."""
    return product(*(_NO_LETTERS if character == " " else (_SIGN_OF[character],) for character in marker[:MARKER_SIZE]))
