"""Compare the names of subjects with a given name: same letters, same words in another order, parts, misspellings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from app.domain.privacy.subject_names import (
    PART_MIN,
    WORDS,
    fold_letters,
    fold_name,
    is_within_edits,
    remove_accents,
)

Likeness = Literal["exact", "case", "spelling", "words", "email", "part", "similar", "speaker"]

_RANKS: Final[tuple[tuple[Likeness, ...], ...]] = (
    ("exact",),
    ("case",),
    ("spelling",),
    ("words",),
    ("email",),
    ("speaker",),
    ("part", "similar"),
)
SAME_NAME: Final[tuple[Likeness, ...]] = ("exact", "case", "spelling", "words")
"""Likenesses of subjects that have the given name, perhaps in another spelling or order."""
_RANK: Final = {likeness: rank for rank, group in enumerate(_RANKS) for likeness in group}
_SIMILAR_MIN: Final = 4
"""Minimum number of letters of a name in which one letter may differ; with twice as many letters, two may differ."""
_WORD_MIN: Final = 5
"""The same limit for a misspelt word while the two names have no other matching word that can name a person."""
_WORDS_MAX: Final = 12
"""Maximum number of words of a name that are compared."""
_MISSING_COST: Final = 3
"""Distance for a word that only the given name has; a word that only the stored name has counts 1."""
_APOSTROPHES: Final = re.compile("['’‘ʼ`´′]| \u0301")  # noqa: RUF001 - as people type them; NFKC splits the acute accent
_TITLES: Final = frozenset(
    {
        *("mr", "mrs", "ms", "miss", "mx", "dr", "prof", "professor", "sir", "madam", "dame", "lord", "lady", "rev"),
        *("jr", "sr", "phd", "md", "frau", "fr", "herr", "herrn", "hr", "dipl", "ing", "mag", "monsieur"),
        *("mme", "madame", "mlle", "senor", "senora", "sra", "srta", "don", "dona", "signor", "signora"),
        *("sig", "dott", "mevrouw", "meneer", "mevr", "dhr", "pan", "pani", "san", "sensei"),
    }
)
"""Titles, without accents: a name may lack them."""
_PARTICLES: Final = frozenset(
    {
        *("de", "del", "della", "der", "den", "di", "do", "dos", "du", "da", "das", "la", "las", "le", "los", "y", "e"),
        *("van", "von", "vom", "zu", "zum", "zur", "und", "and", "of", "the", "al", "el", "bin", "bint", "ibn", "ben"),
        "m",
    }
)
"""Particles, which a name may lack; each counts 1 in the distance. `M.` is a title in French."""


class NearName(NamedTuple):
    """A stored subject with a name like the one given.

    Attributes:
        likeness: `exact`; `case`: equal except for case and Unicode form; `spelling`: and except for accents, spaces
            and punctuation; `words`: the same words in another order, or with a title; `email`: the name before the @;
            `speaker`: memories about the subject have this speaker; `part`: one name contains the words or the letters
            of the other, some perhaps as initials; `similar`: one or two letters of a word or name differ.
        memories: Number of stored memories about the subject, including hidden ones.
        distance: Words and letters in which the names differ, 0 or more; ranks names of one likeness.
    """

    subject: str
    likeness: Likeness
    memories: int = 0
    distance: int = 0


class NameMatcher:
    """Compares many stored names with one given name."""

    def __init__(self, name: str) -> None:
        """Prepare the given name."""
        self._name = name
        self._folded = fold_name(name)
        self._letters = fold_letters(self._folded)
        self._local = fold_letters(self._folded.partition("@")[0]) if "@" in self._folded else self._letters
        self._whole = _Spelling(self._letters)
        words = _split_words(self._folded)
        self._words = [_Spelling(word) for word in words]
        self._known_words = frozenset(filter(_is_name, words))
        self._long_words = [word for word in self._words if len(word.letters) >= _WORD_MIN]
        kept = {*self._known_words}.union(*(word.kept for word in self._long_words))
        self._any_word = _any_of(kept)

    def match(self, stored: str) -> NearName | None:
        """Return a stored name with its likeness to the given one; None if they differ too much."""
        if stored == self._name:
            return NearName(stored, "exact")
        folded = fold_name(stored)
        letters = fold_letters(folded)
        if same := self._find_sameness(folded, letters):
            return NearName(stored, same)
        found = self._match_words(stored, folded, letters)
        if found is not None and found.likeness != "similar":
            return found
        if min(len(letters), len(self._letters)) >= PART_MIN and (
            self._folded in folded or folded in self._folded or self._letters in letters or letters in self._letters
        ):
            return NearName(stored, "part", distance=found.distance if found else _MISSING_COST * len(self._words) + 1)
        if found is None and (edits := self._whole.count_edits(letters)):
            return NearName(stored, "similar", distance=edits)
        return found

    def _find_sameness(self, folded: str, letters: str) -> Likeness | None:
        """Return the likeness of a stored name that has the same letters, perhaps only before an @; otherwise None."""
        if folded == self._folded:
            return "case"
        if letters and letters == self._letters:
            return "spelling"
        local = fold_letters(folded.partition("@")[0]) if "@" in folded else letters
        return "email" if local and local == self._local else None

    def _match_words(self, stored: str, folded: str, letters: str) -> NearName | None:
        """Compare the words of two names in any order; None unless one of the names has all words of the other."""
        if self._any_word is None or not self._any_word.search(letters):
            return None  # most stored names are rejected here, before they are split into words
        words = _split_words(folded)
        if self._known_words.isdisjoint(words) and not any(
            len(word) >= _WORD_MIN and each.count_edits(word) for word in words for each in self._long_words
        ):
            return None
        pairs = _WordPairs(self._words, words)
        missing = [word for word in pairs.left_given() if word not in _TITLES]
        further = [word for word in pairs.left_stored if word not in _TITLES]
        if not pairs.names or not ({*missing} <= _PARTICLES or {*further} <= _PARTICLES):
            return None
        distance = sum(1 if word in _PARTICLES else _MISSING_COST for word in missing) + len(further) + pairs.edits
        if pairs.edits:
            return NearName(stored, "similar", distance=distance)
        has_two_titles = pairs.left_given() and pairs.left_stored  # perhaps two persons
        if distance or pairs.initials or has_two_titles or len(words) - len(pairs.left_stored) == 1:
            return NearName(stored, "part", distance=distance)
        return NearName(stored, "email" if "@" in folded or "@" in self._folded else "words")


class _Spelling:
    """A word, or the letters of a name, with which others are compared.

    Attributes:
        letters: The word, folded and without accents.
        kept: Pieces of the word; one of them is in every word that `count_edits` finds similar.
    """

    def __init__(self, letters: str) -> None:
        self.letters = letters
        self._limit = min(len(letters) // _SIMILAR_MIN, 2)
        self.kept = frozenset(_kept_pieces(letters, self._limit))
        self._any_kept = _any_of(self.kept)

    def count_edits(self, other: str) -> int:
        """Return the number of differing letters, 1 or 2; 0 if the words differ more or this word is too short."""
        limit = self._limit
        if not limit or abs(len(other) - len(self.letters)) > limit:
            return 0
        if self._any_kept is None or not self._any_kept.search(other):
            return 0
        return next((edits for edits in range(1, limit + 1) if is_within_edits(self.letters, other, edits)), 0)


def _kept_pieces(word: str, edits: int) -> Iterator[str]:
    """Yield pieces of a word of which every word within this number of edits contains at least one.

    Each edit changes one of `edits + 1` pieces; only a swap of neighbours between two pieces changes both.
    """
    count = edits + 1
    places = [len(word) * number // count for number in range(count + 1)]
    for start, end in pairwise(places):
        yield word[start:end]
    for place in places[1:-1]:
        swapped = f"{word[: place - 1]}{word[place]}{word[place - 1]}{word[place + 1 :]}"
        yield from _kept_pieces(swapped, edits - 1)


def _any_of(pieces: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern that finds any of these pieces; None if there are none."""
    found = sorted({re.escape(piece) for piece in pieces if piece})
    return re.compile("|".join(found)) if found else None


class _WordPairs:
    """Pairs of corresponding words of a given and a stored name; each word is in one pair at most.

    Attributes:
        left_stored: Words of the stored name without a pair.
        names: Number of pairs of words that can name a person (`_is_name`).
        edits: Letters in which the words of pairs differ.
        initials: Number of pairs of a word and its first letter.
    """

    def __init__(self, given: Sequence[_Spelling], stored: Sequence[str]) -> None:
        """Pair equal words, then words written as one or two, misspelt ones, and initials."""
        self._given = list(given)
        self.left_stored = list(stored)
        self.names = self.edits = self.initials = 0
        for word in given:
            if word.letters in self.left_stored:
                self._pair(word, word.letters)
        if "".join(self.left_given()) == "".join(self.left_stored) != "":
            self.names += 1
            self._given, self.left_stored = [], []
        self._pair_misspelt(_WORD_MIN)
        if self.names:
            self._pair_misspelt(_SIMILAR_MIN)
        for word in list(self._given):
            initial = next((each for each in self.left_stored if _is_initial(word.letters, each)), None)
            if initial is not None:
                self._pair(word, initial)
                self.initials += 1

    def left_given(self) -> list[str]:
        """Return the words of the given name without a pair."""
        return [word.letters for word in self._given]

    def _pair_misspelt(self, letters_min: int) -> None:
        """Pair words that differ in one or two letters and have no digits: a different number is a different name."""
        for word in list(self._given):
            candidates = [
                (edits, each)
                for each in self.left_stored
                if min(len(each), len(word.letters)) >= letters_min
                and each.isalpha()
                and word.letters.isalpha()
                and (edits := word.count_edits(each))
            ]
            if candidates:
                edits, closest = min(candidates)
                self._pair(word, closest)
                self.edits += edits

    def _pair(self, word: _Spelling, stored: str) -> None:
        self._given.remove(word)
        self.left_stored.remove(stored)
        if _is_name(word.letters) and _is_name(stored):
            self.names += 1


def _is_name(word: str) -> bool:
    """Return True if a word of 2 letters or more (3 if it has digits) can name a person: no title and no particle."""
    return len(word) >= (2 if word.isalpha() else PART_MIN) and word not in _TITLES and word not in _PARTICLES


def _is_initial(one: str, other: str) -> bool:
    """Return True if one of two words is the first letter of the other."""
    return min(len(one), len(other)) == 1 and one[0] == other[0] and one[0].isalpha()


def _split_words(folded: str) -> list[str]:
    """Return the words of a folded name without accents and apostrophes; of an e-mail address, those before the @."""
    name = _APOSTROPHES.sub("", folded.partition("@")[0])
    return WORDS.findall(name if name.isascii() else remove_accents(name))[:_WORDS_MAX]


def match_names(name: str, stored: Iterable[str]) -> Iterator[NearName]:
    """Yield the stored names that are like a given name."""
    matcher = NameMatcher(name)
    for each in stored:
        found = matcher.match(each)
        if found is not None:
            yield found


def rank_names(found: Iterable[NearName]) -> list[NearName]:
    """Return each subject once, with its closest likeness: closest first, then those with the most memories."""
    best: dict[str, NearName] = {}
    for each in sorted(found, key=_rank):
        best.setdefault(each.subject, each)
    return list(best.values())


def _rank(near: NearName) -> tuple[int, int, bool, int, str]:
    return _RANK[near.likeness], near.distance, near.likeness == "similar", -near.memories, near.subject


def reorder_names(name: str) -> list[str]:
    """Return the orders in which a name of first and family name is usually stored, without the order given.

    "O'Brien, Liam" is stored as "Liam O'Brien", and "Liam O'Brien" as "O'Brien, Liam" or "O'Brien Liam". An index finds
    these names without comparing all names.
    """
    family, comma, first = (part.strip() for part in name.partition(","))
    if comma:
        return [f"{first} {family}", f"{family} {first}"] if family and first else []
    words = name.split()
    if len(words) < 2:
        return []
    first, family = " ".join(words[:-1]), words[-1]
    return [f"{family}, {first}", f"{family} {first}", f"{' '.join(words[1:])}, {words[0]}"]
