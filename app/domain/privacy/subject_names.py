"""Fold the names of subjects, and find the names of one person in texts.

`name_parts.name_matching` compares names of subjects with each other.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Annotated, Final

import msgspec

from app.domain.ingest.memory import NAME_MAX_CHARACTERS
from app.domain.ingest.roles import ROLES

_NO_LETTERS: Final = {code: None for code in range(128) if not chr(code).isalnum()}
PART_MIN: Final = 3
"""Minimum letters of a name that counts as a part of another name."""
_MISSPELT_MIN: Final = 6
"""Minimum letters of a name that is found misspelt in a text; shorter names are too close to ordinary words."""
_UNSPACED_MIN: Final = 2
WORDS: Final = re.compile(r"[^\W_]+")
UNSPACED: Final = re.compile(r"[\u0e00-\u0eff\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff]")
"""Letters of languages that are written without spaces or append particles: Thai, Lao, Korean, Japanese, Chinese."""
MAILBOXES: Final = frozenset(
    {"admin", "contact", "hello", "help", "info", "mail", "noreply", "office", "sales", "service", "support", "team"}
)
"""Local parts of e-mail addresses that name no person."""


class SubjectSearch(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A search for a subject.

    Attributes:
        name: The name, up to 512 characters; case and Unicode form don't matter. For `mentions`, a street address too.
        limit: Maximum number of subjects, 1 to 100.
    """

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MAX_CHARACTERS, pattern=r"^[^\x00]*$")]
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20


def fold_name(name: str) -> str:
    """Return a name in a comparable form: normalised (NFKC), case-folded, and without outer spaces."""
    if name.isascii():
        return name.lower().strip()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).strip()


def has_other_encoding(one: str, other: str) -> bool:
    """Return True if two names consist of the same letters, stored in different Unicode forms (such as NFC and NFD)."""
    return one != other and unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", other)


def spelling_variants(name: str) -> list[str]:
    """Return usual spellings of a name, which an index finds without comparing all names."""
    forms = (unicodedata.normalize(form, name.strip()) for form in ("NFC", "NFD", "NFKC"))
    return list(
        dict.fromkeys(
            variant
            for form in forms
            for variant in (form, form.lower(), form.upper(), form.title(), form.capitalize(), form.casefold())
        )
    )


def fold_letters(folded: str) -> str:
    """Return a folded name without accents, spaces and punctuation."""
    if folded.isascii():
        return folded if folded.isalnum() else folded.translate(_NO_LETTERS)
    return "".join(sign for sign in unicodedata.normalize("NFD", folded) if sign.isalnum())


def is_within_edits(one: str, other: str, limit: int) -> bool:
    """Return True if at most `limit` insertions, deletions, replacements or swaps of neighbours separate two words."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, sign in enumerate(one, start=1):
        current = [row]
        for column, there in enumerate(other, start=1):
            cost = min(last[column] + 1, current[-1] + 1, last[column - 1] + (sign != there))
            if row > 1 and column > 1 and sign == other[column - 2] and one[row - 2] == there:
                cost = min(cost, before[column - 2] + 1)
            current.append(cost)
        if min(current) > limit:
            return False
        before, last = last, current
    return last[-1] <= limit


class NameFinder:
    """Finds a person's names in texts, as whole words.

    Differences in case, Unicode form, accents, spaces and punctuation are ignored. Of a name that is an e-mail address,
    the part before the @ is also found alone. Names of fewer than three letters and names of roles aren't looked for,
    unless `every` is set.
    """

    def __init__(self, names: Iterable[str], *, every: bool = False) -> None:
        """Prepare the names. With `every`, short names and names of roles are looked for too."""
        forms = {form for name in names for form in _name_forms(name, every=every)}
        unspaced_min, least = (1, 1) if every else (_UNSPACED_MIN, PART_MIN)
        self._unspaced = {form for form in forms if UNSPACED.search(form) and len(form) >= unspaced_min}
        self._names = {form for form in forms if len(form) >= least} - self._unspaced
        self._longest = max(map(len, self._names), default=0)

    def __bool__(self) -> bool:
        """Return True if any name is looked for."""
        return bool(self._names or self._unspaced)

    def is_in(self, text: str) -> bool:
        """Return True if a text contains one of the names."""
        words = [fold_letters(fold_name(word)) for word in _words(text)]
        if self._unspaced and any(name in "".join(words) for name in self._unspaced):
            return True
        return any(joined in self._names for joined in self._join(words))

    def _join(self, words: list[str]) -> Iterator[str]:
        """Yield the neighbouring words of a text, joined, up to the length of the longest name."""
        for start in range(len(words)):
            joined = ""
            for word in words[start:]:
                joined += word
                if len(joined) > self._longest:
                    break
                yield joined

    def misspellings(self, text: str) -> set[str]:
        """Return the capitalised words of a text that differ from a name in one letter, such as an added s.

        The first letter has to be the name's. Names of fewer than six letters, and names and words with digits, aren't
        compared: another number is another name.
        """
        names = [name for name in self._names if len(name) >= _MISSPELT_MIN and name.isalpha()]
        found = set()
        for word in _words(text) if names else ():
            letters = fold_letters(fold_name(word))
            if word[0].islower() or not letters.isalpha() or letters in self._names:
                continue
            if any(name[0] == letters[:1] and is_within_edits(name, letters, 1) for name in names):
                found.add(word)
        return found


def sought_names(names: Iterable[str]) -> list[str]:
    """Return the names that `NameFinder` would look for, folded by `fold_name`."""
    return [fold_name(name) for name in names if NameFinder([name])]


def contains_exactly(text: str, names: Iterable[str]) -> bool:
    """Return True if a text contains one of the names as whole words, with the same case and accents."""
    plain = unicodedata.normalize("NFC", text)
    exact = (re.escape(unicodedata.normalize("NFC", name.strip())) for name in names)
    return any(re.search(rf"(?<!\w){name}(?!\w)", plain) for name in exact if name)


def _words(text: str) -> list[str]:
    """Return the words of a text, without accents."""
    return WORDS.findall(remove_accents(text))


def remove_accents(text: str) -> str:
    """Return a text without accents, in compatible characters (NFKD)."""
    plain = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text))
    return "".join(sign for sign in plain if not unicodedata.combining(sign))


def _name_forms(name: str, *, every: bool) -> Iterator[str]:
    """Yield the letters of a name, and of the part of an e-mail address before the @; a role's only with `every`."""
    folded = fold_name(name)
    if folded in ROLES and not every:
        return
    yield fold_letters(folded)
    if "@" in folded:
        local = fold_letters(folded.partition("@")[0].partition("+")[0])
        if local not in MAILBOXES:
            yield local
