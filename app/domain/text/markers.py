"""Markers: words and parts of words that tell, for a whole batch of texts at once, which of them are worth reading.

A regular expression over every text costs more than all else that indexing does in Python. A text without any marker of
a group is passed over; one with a marker is read in full, so a marker too many only costs time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from string import ascii_lowercase, digits
from typing import Final

import numpy as np
from numpy.typing import NDArray

MARKER_SIZE: Final = 5
"""Characters of a marker that count; longer ones are cut."""

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
"""Letters outside ASCII that match i or s where case is ignored: a text with one of them has every marker."""


def marker(word: str) -> str:
    """Return a marker of a word in small letters; one of a long word is in other words too."""
    if len(word) < MARKER_SIZE:
        return f" {word} "
    return word if len(word) == MARKER_SIZE else word[1:]


class Signs:
    """The characters of a batch of texts, reduced to 32 signs.

    Attributes:
        codes: The signs of all texts, one after another, each text with a blank before it, shape (characters,).
        starts: Where each text starts, shape (texts,).
        is_irregular: Texts whose letters can't be reduced, shape (texts,).
    """

    def __init__(self, texts: Sequence[str]) -> None:
        """Reduce texts; case, accents and the kind of punctuation are lost."""
        whole = "\0".join(("", *texts))
        self.is_irregular = np.zeros(len(texts), np.bool_)
        if any(letter in whole for letter in _IRREGULAR):
            self.is_irregular[:] = [not each.isascii() and not set(_IRREGULAR).isdisjoint(each) for each in texts]
            for letter in _IRREGULAR:
                whole = whole.replace(letter, " ")
        plain = whole.lower().replace(_FULL_WIDTH_AT, "@").encode("latin-1", "replace")
        self._plain = plain + bytes(MARKER_SIZE)
        self.codes = np.frombuffer(self._plain.translate(_TABLE), np.uint8)
        sizes = np.fromiter(map(len, texts), np.intp, len(texts)) + 1
        self.starts = np.cumsum(sizes) - sizes

    def count(self, characters: str) -> NDArray[np.intp]:
        """Return how many of these characters of ASCII each text has, shape (texts,)."""
        wanted = bytes(chr(code) in characters for code in range(256))
        places = np.flatnonzero(np.frombuffer(self._plain.translate(wanted), np.bool_))
        return np.diff(np.searchsorted(places, np.append(self.starts, len(self._plain))))

    def has_run(self, size: int) -> NDArray[np.bool_]:
        """Return which texts have so many characters without white space of ASCII between them, shape (texts,)."""
        blank = bytes(chr(code) in "\0\t\n\v\f\r " for code in range(256))
        blanks = np.flatnonzero(np.frombuffer(self._plain.translate(blank), np.bool_))
        found = np.zeros(len(self.starts), np.bool_)
        long = blanks[:-1][np.diff(blanks) > size]
        found[np.searchsorted(self.starts, long, "right") - 1] = True
        return found


class Markers:
    """Groups of markers, and the search for them."""

    def __init__(self, groups: Mapping[str, Iterable[str]]) -> None:
        """Take the markers of each group.

        In a marker, a blank stands for anything but a letter or digit, the beginning and end of a text included, and a
        digit for any digit.

        Args:
            groups: At most 8. Markers are in small letters, and may be longer than `MARKER_SIZE`.
        """
        self._names = list(groups)
        # Two runs of four signs, of which the second begins at the second sign of the first.
        heads = np.zeros((_SIGNS,) * 4, np.uint8)
        tails = np.zeros((_SIGNS,) * 4, np.uint8)
        for bit, markers in enumerate(groups.values()):
            for signs in chain.from_iterable(map(_spelled, markers)):
                heads[signs[:4]] |= np.uint8(1 << bit)
                tails[signs[1:]] |= np.uint8(1 << bit)
        self._heads, self._tails = heads.ravel(), tails.ravel()

    def find(self, signs: Signs) -> dict[str, NDArray[np.bool_]]:
        """Return which texts have a marker of each group, each of shape (texts,).

        A text may be named without a marker, since parts of two markers can look like a third.
        """
        pairs = signs.codes[:-1].astype(np.uint32)
        pairs <<= _BITS
        pairs |= signs.codes[1:]
        fours = pairs[:-2] << (2 * _BITS)
        fours |= pairs[2:]
        hits = self._heads[fours[:-1]] & self._tails[fours[1:]]
        if not len(signs.starts):
            return {name: np.zeros(0, np.bool_) for name in self._names}
        found = np.bitwise_or.reduceat(hits, signs.starts)
        return {name: (found & np.uint8(1 << bit) != 0) | signs.is_irregular for bit, name in enumerate(self._names)}


def _spelled(marker: str) -> Iterator[tuple[int, ...]]:
    """Return the signs of a marker in every way that it can be written."""
    return product(*(_NO_LETTERS if each == " " else (_SIGN_OF[each],) for each in marker[:MARKER_SIZE]))
