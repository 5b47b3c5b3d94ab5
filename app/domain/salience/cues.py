"""Validate cues: words and situations that, according to a model, should trigger a memory.

A cue is only ever compared with messages. No search or recall response contains it and no model reads it, so a cue that
contains an instruction ("ignore the previous instructions") has no effect.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple

from app.domain.text.words import STOP_WORDS, split_words

CUES_MAX: Final = 5
CUE_MAX_CHARACTERS: Final = 60
CUE_MAX_WORDS: Final = 6

_JOINERS: Final = "\u200c\u200d"
"""Zero-width characters that words of some scripts require."""
_ADDRESS: Final = re.compile(r"@|://|\bwww\.|[^\W_]{2}\.[^\W\d_]{2}", re.IGNORECASE)
"""Signs of an e-mail address or a URL, including bare domains such as `example.com`."""
_LONG_NUMBER: Final = re.compile(r"\d(?:[\s().+/-]?\d){4}")
"""More than four digits in a row, optionally separated as in telephone and card numbers."""


class Cues(NamedTuple):
    """Validated cues of one memory.

    Attributes:
        kept: Distinct valid cues in lower case, in the model's order, at most `CUES_MAX`.
        dropped: Number of rejected cues.
    """

    kept: tuple[str, ...] = ()
    dropped: int = 0


def read_cues(given: object, text: str) -> Cues:
    """Validate the cues that a model returned for a memory.

    An invalid cue is dropped; the other cues and the rating in the same answer remain valid.

    Args:
        given: Decoded JSON; None if the answer has no cues.
        text: The memory's text. A cue made only of the text's own words is dropped because search already matches
            those.
    """
    if given is None:
        return Cues()
    if not isinstance(given, list):
        return Cues(dropped=1)
    own = set(split_words(text))
    valid = (cue for item in given if (cue := _cleaned(item)) and not own.issuperset(_content(cue)))
    distinct = tuple(dict.fromkeys(valid))[:CUES_MAX]
    return Cues(distinct, len(given) - len(distinct))


def _cleaned(given: object) -> str | None:
    """Return a cue in lower case with single spaces, or None if it is not allowed."""
    if not isinstance(given, str):
        return None
    cue = unicodedata.normalize("NFKC", given).strip().lower()
    if not cue or len(cue) > CUE_MAX_CHARACTERS or not all(sign.isprintable() or sign in _JOINERS for sign in cue):
        return None
    if len(split_words(cue)) > CUE_MAX_WORDS or not _content(cue):
        return None
    return None if _ADDRESS.search(cue) or _LONG_NUMBER.search(cue) else " ".join(cue.split())


def _content(cue: str) -> list[str]:
    """Return the words of a cue that a message must contain."""
    return [word for word in split_words(cue) if word not in STOP_WORDS]
