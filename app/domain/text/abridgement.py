"""What is left of a text in the row of a memory that is in cold storage: its first sentences."""

from __future__ import annotations

import re
from typing import Final

KEPT_BYTES: Final = 1024
"""Of the text, in UTF-8."""

# The end of a sentence, in scripts without blanks too, or of a line.
_END: Final = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s)|[。！？]+[」』）]*|\n+")  # noqa: RUF001 - signs of Chinese and Japanese


def abridged(text: str) -> str:
    """The first sentences of a text, at most `KEPT_BYTES`; a text that isn't longer stays whole.

    Where the first sentence alone is longer, it ends at a word, or wherever it must, with an ellipsis.
    """
    encoded = text.encode()
    if len(encoded) <= KEPT_BYTES:
        return text
    head = encoded[: KEPT_BYTES - len("…".encode())].decode(errors="ignore")
    ends = [found.end() for found in _END.finditer(head)]
    if ends:
        return head[: ends[-1]].rstrip()
    words = head.rsplit(None, 1)
    return f"{words[0] if len(words) > 1 else head}…"
