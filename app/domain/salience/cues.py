"""Cues: words and situations that, by a model's word, should bring a memory to mind.

A cue is compared with messages and with nothing else: no answer of a search or a recall shows it, and no model reads
it. A cue that reads like an order ("ignore the previous instructions") is therefore as harmless as any other text.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple

from app.domain.text.wording import STOP_WORDS, words

CUES_MAX: Final = 5
CUE_MAX_CHARACTERS: Final = 60
CUE_MAX_WORDS: Final = 6

_JOINERS: Final = "\u200c\u200d"
"""Characters without width that words of some scripts contain."""
_ADDRESS: Final = re.compile(r"@|://|\bwww\.|[^\W_]{2}\.[^\W\d_]{2}", re.IGNORECASE)
"""Signs of an e-mail address or a URL, bare domains such as `example.com` included."""
_LONG_NUMBER: Final = re.compile(r"\d(?:[\s().+/-]?\d){4}")
"""More than four digits in a row, with or without the signs that telephone and card numbers are written with."""


class Cues(NamedTuple):
    """The cues of one memory.

    Attributes:
        kept: Valid ones in lower case, in the model's order, each once, at most `CUES_MAX`.
        dropped: How many of those given were left out.
    """

    kept: tuple[str, ...] = ()
    dropped: int = 0


def read_cues(given: object, text: str) -> Cues:
    """Return the valid ones of the cues that a model gave for a memory.

    Broken cues never spoil the rating that they came with: whatever was given, the others are kept.

    Args:
        given: Decoded JSON; None where the answer has no cues.
        text: The memory's text. A cue of its own words alone is dropped, since a search compares those anyway.
    """
    if given is None:
        return Cues()
    if not isinstance(given, list):
        return Cues(dropped=1)
    own = set(words(text))
    valid = (cue for each in given if (cue := _cleaned(each)) and not own.issuperset(_content(cue)))
    kept = tuple(dict.fromkeys(valid))[:CUES_MAX]
    return Cues(kept, len(given) - len(kept))


def _cleaned(given: object) -> str | None:
    """Return a cue in lower case with single blanks; None where it is not allowed."""
    if not isinstance(given, str):
        return None
    cue = unicodedata.normalize("NFKC", given).strip().lower()
    if not cue or len(cue) > CUE_MAX_CHARACTERS or not all(sign.isprintable() or sign in _JOINERS for sign in cue):
        return None
    if len(words(cue)) > CUE_MAX_WORDS or not _content(cue):
        return None
    return None if _ADDRESS.search(cue) or _LONG_NUMBER.search(cue) else " ".join(cue.split())


def _content(cue: str) -> list[str]:
    """Return the words of a cue that a message must say."""
    return [word for word in words(cue) if word not in STOP_WORDS]
