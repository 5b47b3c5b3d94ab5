"""Abridge the text of a memory to its first sentences, which remain in its row when it moves to cold storage."""

from __future__ import annotations

import re
from typing import Final

KEPT_BYTES: Final = 1024
"""Maximum size of the abridged text, in UTF-8."""

# The end of a sentence, also in scripts without spaces, or of a line.
_END: Final = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s)|[。！？]+[」』）]*|\n+")  # noqa: RUF001 - Chinese and Japanese punctuation


def abridge(text: str) -> str:
    """Return the first sentences of a text, at most `KEPT_BYTES`; a shorter text is returned unchanged.

    If the first sentence alone is longer, it is cut with an ellipsis, between words if possible.
    """
    encoded = text.encode()
    if len(encoded) <= KEPT_BYTES:
        return text
    head = encoded[: KEPT_BYTES - len("…".encode())].decode(errors="ignore")
    ends = [match.end() for match in _END.finditer(head)]
    if ends:
        return head[: ends[-1]].rstrip()
    words = head.rsplit(None, 1)
    return f"{words[0] if len(words) > 1 else head}…"
