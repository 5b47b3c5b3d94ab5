"""Estimate the number of tokens of a text, deliberately too high, without any model's tokenizer.

One token is counted for every three ASCII letters of a word (or the rest of them), for each digit and symbol, and for
each line break. A character outside ASCII counts one less than its bytes in UTF-8: an é or a Cyrillic letter 1, a
Chinese character 2, an emoji 3. Models count fewer tokens for nearly every text (English prose: half as many).
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
    """Truncate a text to its beginning, with an ellipsis; a text within the limit is returned unchanged.

    The text is cut at a sentence end if at least half of the characters that fit are preserved, otherwise between
    words. A first word that doesn't fit is cut itself. If not even a character fits, the result is empty.
    """
    room, end_of_head, remaining = limit - count(ELLIPSIS), 0, limit
    for tokens, _, end in _pieces(text):
        remaining -= tokens
        if limit - remaining <= room:
            end_of_head = end
    if remaining >= 0:
        return text
    sentences = [match.end() for match in _SENTENCE.finditer(text, 0, end_of_head)]
    if sentences and sentences[-1] * 2 >= end_of_head:
        end_of_head = sentences[-1]
    elif text[end_of_head - 1 : end_of_head + 1].isalnum():
        end_of_head = text.rfind(" ", 0, end_of_head) + 1 or end_of_head
    return text[:end_of_head].rstrip() + ELLIPSIS if end_of_head else ""


def truncate_to_tail(text: str, limit: int) -> str:
    """Return the end of a text, starting at a token boundary; a text within the limit is returned unchanged."""
    remaining, begin = limit, len(text)
    for tokens, start, _ in reversed(list(_pieces(text))):
        remaining -= tokens
        if remaining < 0:
            return text[begin:]
        begin = start
    return text


def _pieces(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield the token count, start and end of each piece of a text."""
    for match in _PIECE.finditer(text):
        code = ord(match[0][0])
        yield 1 if code < 0x800 else 2 if code < 0x10000 else 3, match.start(), match.end()
