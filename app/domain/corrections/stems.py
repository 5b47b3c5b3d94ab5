"""Reduce English words to stems, so that "lessons" matches "lesson"."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_ENDINGS: Final = ("ations", "ation", "ings", "ing", "edly", "ed", "ies", "es", "s", "ly")
_LEAST_LETTERS: Final = 3
_DOUBLED: Final = "bdgmnprt"


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """Return a word without its ending, by fixed rules without a dictionary."""
    bare = word.lower().replace("’", "'").split("'", maxsplit=1)[0]
    for ending in _ENDINGS:
        if bare.endswith(ending) and len(bare) - len(ending) >= _LEAST_LETTERS:
            bare = bare[: -len(ending)] + ("y" if ending == "ies" else "")
            break
    if len(bare) > _LEAST_LETTERS and bare[-1] == bare[-2] and bare[-1] in _DOUBLED:
        bare = bare[:-1]
    return bare[:-1] if len(bare) > _LEAST_LETTERS and bare.endswith("e") else bare
