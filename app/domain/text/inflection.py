"""Map irregular English forms that stemmers don't unify: went and go, children and child."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from app.domain.data_files import read_lines

_BASE_CHARACTERS: Final = 3
"""Minimum length of a word after an ending is removed."""
_GROUPS: Final = {
    word: group
    for group in map(tuple, map(str.split, read_lines(__package__, "irregular_forms.txt")))
    for word in group
}


def other_forms(word: str) -> tuple[str, ...]:
    """Return the other irregular forms of a lower-cased English word; empty if there are none."""
    bare = word.removesuffix("ing")
    for candidate in (word, word.removesuffix("s"), word.removesuffix("es"), bare, f"{bare}e", bare[:-1]):
        if candidate in _GROUPS:
            return tuple(form for form in _GROUPS[candidate] if form != word)
    return ()


def irregular_forms(words: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Map each word with irregular forms to these forms."""
    return {word: forms for word in words if (forms := other_forms(word))}


def base_forms(word: str) -> set[str]:
    """Return the possible dictionary forms of an English word, including the word itself.

    One regular ending is removed and irregular forms are added. Some results are not words: "bak" from "baking".
    """
    forms = {word, *other_forms(word)}
    if word.endswith("ies"):
        forms.add(f"{word[:-3]}y")
    for ending in ("s", "es", "d", "ed", "ing"):
        bare = word.removesuffix(ending)
        if bare != word and len(bare) >= _BASE_CHARACTERS:
            forms.add(bare)
            if ending == "ing":
                forms.add(f"{bare}e")
            if bare[-1] == bare[-2]:
                forms.add(bare[:-1])
    return forms
