"""Find a given name or address among the names of persons and street addresses that rules detect in a text."""

from __future__ import annotations

from typing import Final

from app.domain.privacy.identities.person_names import find_person_names
from app.domain.privacy.identities.street_addresses import find_street_addresses
from app.domain.privacy.parameters import IdentityKind
from app.domain.privacy.subject_names import PART_MIN, WORDS, fold_letters, fold_name

REPORTED_FROM: Final = 0.5
"""Minimum confidence of a detected name or address."""


class MentionFinder:
    """Finds one person's name or address in texts, ignoring differences in case, Unicode form and accents.

    Attributes:
        words: The folded words of the name; empty if it is too short to be looked for.
    """

    def __init__(self, name: str) -> None:
        """Prepare the name; of a mail address, the part before the `@` counts."""
        words = _fold_words(name.partition("@")[0])
        self.words = words if sum(map(len, words)) >= PART_MIN else ()

    @property
    def rarest_word(self) -> str:
        """The longest word; every text with a mention contains it, perhaps with other case and accents."""
        return max(self.words, key=len)

    def find(self, text: str) -> IdentityKind | None:
        """Return the kind of the first detected name or address that contains all words in their order, or None."""
        if not self.words or not set(self.words) <= set(_fold_words(text)):
            return None
        for kind, spans in (("street_address", find_street_addresses(text)), ("person_name", find_person_names(text))):
            for start, end, confidence in spans:
                if confidence >= REPORTED_FROM and self._is_in(_fold_words(text[start:end])):
                    return "street_address" if kind == "street_address" else "person_name"
        return None

    def _is_in(self, words: tuple[str, ...]) -> bool:
        count = len(self.words)
        return any(words[start : start + count] == self.words for start in range(len(words) - count + 1))


def _fold_words(text: str) -> tuple[str, ...]:
    return tuple(fold_letters(fold_name(word)) for word in WORDS.findall(text))
