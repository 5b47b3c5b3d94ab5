"""Callers' words as they are shown: what could steer the eye or the page is told instead of done."""

from __future__ import annotations

import json
import unicodedata
from typing import Any, Final

KEPT: Final = "\n\t"
_STEERING: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\ufeff")
"""Signs that turn the direction of what follows, or that nobody sees. Marks that Arabic and Hebrew need aren't here."""


def visible(text: object) -> str:
    """A text with its control characters written out, such as ⟨U+202E⟩; nothing for None."""
    if text is None:
        return ""
    return "".join(_shown(sign) for sign in str(text))


def short(text: object, most: int) -> str:
    """The same in one line, cut where it is longer."""
    line = " ".join(visible(text).split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def as_json(value: Any) -> str:
    """A caller's metadata, in lines."""
    return visible(json.dumps(value, ensure_ascii=False, indent=1))


def _shown(sign: str) -> str:
    if sign in KEPT or (sign not in _STEERING and unicodedata.category(sign) not in ("Cc", "Cs")):
        return sign
    return f"⟨U+{ord(sign):04X}⟩"
