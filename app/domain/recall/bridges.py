"""Compute a memory's flags (bridges, days, months), by which recalls find memories without any shared word.

The flags of a text are one integer: bits 0 to 7 for the bridges that match the text (`english.toml`, bridges), and bits
from `DAYS_FROM` for the days and months that the text names. The flags are computed when a memory is written, so that
an index can find and count the memories with a flag.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

from app.domain.recall.english import english
from app.domain.text.inflection import base_forms
from app.domain.text.words import STOP_WORDS, split_words

DAYS_FROM: Final = 8
"""First bit for days and months."""
BRIDGES_MASK: Final = (1 << DAYS_FROM) - 1


def read_flags(text: str) -> int:
    """Return the flags of a memory's text; 0 for most texts."""
    lower = text.lower()
    bridge_flags = (1 << place for place, bridge in enumerate(english().bridges.values()) if bridge.held.search(lower))
    return sum(bridge_flags) | _list_days(lower)


def read_days(text: str) -> int:
    """Return the flags of the days and months that a text names."""
    return _list_days(text.lower())


def _list_days(lower: str) -> int:
    flags = 0
    for match in english().days.finditer(lower):
        if match.lastgroup is not None:
            flags |= 1 << DAYS_FROM + english().day_names.index(match.lastgroup)
    return flags


def markers() -> list[str]:
    """Return markers (`app.domain.text.markers`), at least one of which occurs in every text with a flag."""
    return [*chain.from_iterable(bridge.markers for bridge in english().bridges.values()), *english().day_markers]


def find_asked_flags(window: Sequence[str]) -> int:
    """Return the flags that a conversation asks for: its bridges, and the days and months that it names.

    Args:
        window: The conversation's messages in any order.
    """
    spoken_forms = {
        form for line in window for word in split_words(line) if word not in STOP_WORDS for form in base_forms(word)
    }
    flags = 0
    for place, bridge in enumerate(english().bridges.values()):
        if not bridge.asked.isdisjoint(spoken_forms):
            flags |= 1 << place
    for line in window:
        flags |= read_days(line)
    return flags


def split_flags(flags: int) -> list[int]:
    """Return the single flags in an integer, lowest bit first."""
    return [1 << place for place in range(flags.bit_length()) if flags >> place & 1]
