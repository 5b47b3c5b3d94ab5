"""Map irregular English forms that stemmers don't unify: went and go, children and child."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_FORMS: Final = """
become became, begin began begun, bite bit bitten, blow blew blown, break broke broken, bring brought, build built,
buy bought, catch caught, child children, choose chose chosen, come came, deal dealt, dig dug, do did done,
draw drew drawn, drink drank drunk, drive drove driven, eat ate eaten, fall fell fallen, feed fed, feel felt,
fight fought, find found, fly flew flown, foot feet, forget forgot forgotten, forgive forgave forgiven,
freeze froze frozen, get got gotten, give gave given, go went gone, grow grew grown, hang hung, hear heard,
hide hid hidden, hold held, keep kept, knife knives, know knew known, lead led, learn learnt, leave left, lend lent,
life lives, lose lost, make made, man men, mean meant, meet met, mouse mice, pay paid, person people,
ride rode ridden, ring rang rung, rise rose risen, run ran, say said, see saw seen, seek sought, sell sold, send sent,
shake shook shaken, shine shone, shoot shot, show shown, sing sang sung, sit sat, sleep slept, speak spoke spoken,
spend spent, stand stood, steal stole stolen, stick stuck, strike struck, sweep swept, swim swam swum,
take took taken, teach taught, tear tore torn, tell told, think thought, throw threw thrown, tooth teeth,
understand understood, wake woke woken, wear wore worn, wife wives, win won, woman women, write wrote written
"""
_BASE_CHARACTERS: Final = 3
"""Minimum length of a word after an ending is removed."""
_GROUPS: Final = {word: group for line in _FORMS.split(",") for group in [tuple(line.split())] for word in group}


def other_forms(word: str) -> tuple[str, ...]:
    """Return the other irregular forms of a lower-cased English word; empty if there are none."""
    bare = word.removesuffix("ing")
    for known in (word, word.removesuffix("s"), word.removesuffix("es"), bare, f"{bare}e", bare[:-1]):
        if known in _GROUPS:
            return tuple(form for form in _GROUPS[known] if form != word)
    return ()


def inflected(words: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Map each word with irregular forms to these forms."""
    return {word: others for word in words if (others := other_forms(word))}


def base_forms(word: str) -> set[str]:
    """Return the possible dictionary forms of an English word, including the word itself.

    One regular ending is removed and irregular forms are added. Some results are not words: "bak" from "baking".
    """
    found = {word, *other_forms(word)}
    if word.endswith("ies"):
        found.add(f"{word[:-3]}y")
    for ending in ("s", "es", "d", "ed", "ing"):
        bare = word.removesuffix(ending)
        if bare != word and len(bare) >= _BASE_CHARACTERS:
            found.add(bare)
            if ending == "ing":
                found.add(f"{bare}e")
            if bare[-1] == bare[-2]:
                found.add(bare[:-1])
    return found
