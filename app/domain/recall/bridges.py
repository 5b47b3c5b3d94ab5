"""Compute the flags of a memory (bridges, days and months) by which a conversation finds it without a shared word.

The flags are one integer: bits 0 to 7 for the bridges that match the text (`english.toml`, bridges), and bits from
`DAYS_FROM` for the days and months that it names. They are computed when a memory is written, so that an index finds
the memories with a flag and their number is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

from app.domain.recall.english import english
from app.domain.text.inflection import base_forms
from app.domain.text.words import STOP_WORDS, split_words

DAYS_FROM: Final = 8
"""First bit of the days and months."""
BRIDGES_MASK: Final = (1 << DAYS_FROM) - 1


def read_flags(text: str) -> int:
    """Return the flags of a memory's text; 0 for most texts."""
    lower = text.lower()
    held = (1 << place for place, bridge in enumerate(english().bridges.values()) if bridge.held.search(lower))
    return sum(held) | _list_days(lower)


def read_days(text: str) -> int:
    """Return the flags of the days and months that a text names."""
    return _list_days(text.lower())


def _list_days(lower: str) -> int:
    named = 0
    for found in english().days.finditer(lower):
        if found.lastgroup is not None:
            named |= 1 << DAYS_FROM + english().day_names.index(found.lastgroup)
    return named


def markers() -> list[str]:
    """Return markers (`domain.text.markers`), at least one of which occurs in every text with a flag."""
    return [*chain.from_iterable(bridge.markers for bridge in english().bridges.values()), *english().day_markers]


def find_asked_flags(window: Sequence[str]) -> int:
    """Return the flags that a conversation asks for: its bridges, and the days and months that it names.

    Args:
        window: The conversation's messages in any order.
    """
    said = {
        form for line in window for word in split_words(line) if word not in STOP_WORDS for form in base_forms(word)
    }
    asked = 0
    for place, bridge in enumerate(english().bridges.values()):
        if not bridge.asked.isdisjoint(said):
            asked |= 1 << place
    for line in window:
        asked |= read_days(line)
    return asked


def split_flags(flags: int) -> list[int]:
    """Return the single flags in an integer, lowest bit first."""
    return [1 << place for place in range(flags.bit_length()) if flags >> place & 1]
