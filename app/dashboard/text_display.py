"""Make caller-supplied text safe to display: control and direction characters are shown as code points."""

from __future__ import annotations

import json
import unicodedata
from typing import Any, Final

KEPT: Final = "\n\t"
_STEERING: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\ufeff")
"""Direction overrides and invisible characters. Marks needed for Arabic and Hebrew are not included."""


def make_visible(text: object) -> str:
    """Return a text with control characters replaced by code points such as ⟨U+202E⟩; empty for None."""
    if text is None:
        return ""
    return "".join(_show_sign(sign) for sign in str(text))


def shorten(text: object, most: int) -> str:
    """Return the visible text as one line, truncated to `most` characters."""
    line = " ".join(make_visible(text).split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def as_json(value: Any) -> str:
    """Return metadata as indented JSON."""
    return make_visible(json.dumps(value, ensure_ascii=False, indent=1))


def _show_sign(sign: str) -> str:
    if sign in KEPT or (sign not in _STEERING and unicodedata.category(sign) not in ("Cc", "Cs")):
        return sign
    return f"⟨U+{ord(sign):04X}⟩"
