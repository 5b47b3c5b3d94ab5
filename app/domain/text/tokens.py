"""Estimate the number of tokens of a text, deliberately too high, without any model's tokenizer.

One token is counted for every three ASCII letters of a word or part of them, for each digit and sign, and for each line
break. A character outside ASCII counts one less than its bytes in UTF-8: an é or a Cyrillic letter 1, a Chinese one 2,
an emoji 3. Models count fewer for nearly every text (English prose: half as many).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_PIECE = re.compile(r"[A-Za-z]{1,3}|\n|\S")
_SENTENCE = re.compile(r"[.!?](?=\s|$)|[\u3002\uff01\uff1f]")
ELLIPSIS = "…"


def count(text: str) -> int:
    """Return an upper estimate of a text's tokens."""
    return sum(tokens for tokens, _, _ in _pieces(text))


def truncate_to_head(text: str, limit: int) -> str:
    """Truncate a text to its beginning, with an ellipsis: at a sentence end, otherwise between words.

    Sentence ends are used if they preserve at least half of what fits; a single word that is too long is cut. Empty if
    nothing fits. A text within the limit is returned unchanged.
    """
    room, fits, left = limit - count(ELLIPSIS), 0, limit
    for tokens, _, end in _pieces(text):
        left -= tokens
        if limit - left <= room:
            fits = end
    if left >= 0:
        return text
    sentences = [found.end() for found in _SENTENCE.finditer(text, 0, fits)]
    if sentences and sentences[-1] * 2 >= fits:
        fits = sentences[-1]
    elif text[fits - 1 : fits + 1].isalnum():
        fits = text.rfind(" ", 0, fits) + 1 or fits
    return text[:fits].rstrip() + ELLIPSIS if fits else ""


def truncate_to_tail(text: str, limit: int) -> str:
    """Truncate a text to its end, starting at a token boundary; a text within the limit is returned unchanged."""
    left, begins = limit, len(text)
    for tokens, start, _ in reversed(list(_pieces(text))):
        left -= tokens
        if left < 0:
            return text[begins:]
        begins = start
    return text


def _pieces(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield the token count, start and end of each piece of a text."""
    for found in _PIECE.finditer(text):
        code = ord(found[0][0])
        yield 1 if code < 0x800 else 2 if code < 0x10000 else 3, found.start(), found.end()
