"""Find parts of a person's names in texts: words that may mean the person or another person, such as a first name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from app.domain.data_files import read_lines
from app.domain.ingest.roles import ROLES
from app.domain.privacy.subject_names import (
    MAILBOXES,
    PART_MIN,
    UNSPACED,
    WORDS,
    fold_letters,
    fold_name,
    remove_accents,
)

_PARTICLES: Final = MAILBOXES | frozenset(
    {
        *("and", "bin", "bint", "dal", "das", "dei", "del", "den", "der", "des", "dos", "ibn", "las", "los", "miss"),
        *("mrs", "sir", "the", "und", "van", "vom", "von", "zum", "zur"),
    }
)
"""Words of names that name no person by themselves: particles, titles and mailboxes."""
_ORDINARY: Final = frozenset(
    word for line in read_lines(__package__ or "", "ordinary_names.txt") for word in line.split()
)
"""Names that are ordinary words too, such as `May` and `Baker`."""
_ENDS: Final = frozenset(".!?:;\n")


class NamePartFinder:
    """Finds parts of a person's names in texts.

    A part is a word of three letters or more, without digits, in a name of several words; of a mail address, only the
    words before the @ count. Parts are found as whole words, ignoring case, Unicode form and accents. A part that is an
    ordinary word too counts only where it is capitalised within a sentence. Names with a number (`customer 17`) have
    no parts.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """Prepare the names."""
        self.parts = {part for name in names for part in _split(name)}

    def find(self, text: str) -> set[str]:
        """Return the parts that a text contains."""
        found = set()
        plain = remove_accents(text)
        for match in WORDS.finditer(plain) if self.parts else ():
            part = fold_letters(fold_name(match[0]))
            if part in self.parts and (part not in _ORDINARY or _is_capitalised_within(plain, match)):
                found.add(part)
        return found


def _is_capitalised_within(text: str, match: re.Match[str]) -> bool:
    """Return True if a word begins with a capital letter and isn't the first of its sentence."""
    before = text[: match.start()].rstrip()
    return match[0][0].isupper() and bool(before) and before[-1] not in _ENDS


def _split(name: str) -> Iterator[str]:
    """Yield the parts of a name of several words."""
    folded = fold_name(name)
    words = WORDS.findall(remove_accents(folded.partition("@")[0]))
    if len(words) == 1 or folded in ROLES or any(word.isdecimal() for word in words):
        return
    for word in words:
        part = fold_letters(fold_name(word))
        if len(part) >= PART_MIN and part.isalpha() and part not in _PARTICLES and not UNSPACED.search(part):
            yield part
