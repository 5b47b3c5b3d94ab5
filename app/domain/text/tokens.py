"""How many tokens a text is to a language model, estimated from above: no tokenizer is known here, nor needed.

A token is taken for every three ASCII letters of a word that were begun, for each digit and sign, and for each line
break; a character outside ASCII counts a token less than it has bytes in UTF-8: an é or a Cyrillic letter 1, a Chinese
one 2, an emoji 3. Models count less for nearly every text (English prose: half of it).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_PIECE = re.compile(r"[A-Za-z]{1,3}|\n|\S")
_SENTENCE = re.compile(r"[.!?](?=\s|$)|[\u3002\uff01\uff1f]")
ELLIPSIS = "…"


def count(text: str) -> int:
    """Tokens of a text, rather too many than too few."""
    return sum(tokens for tokens, _, _ in _pieces(text))


def head(text: str, limit: int) -> str:
    """The beginning of a text that is too long, with an ellipsis: whole sentences, or else whole words.

    Sentences where they make up half of what fits; a word alone that is too long is cut. Empty where nothing fits; a
    text that isn't too long stays as it is.
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


def tail(text: str, limit: int) -> str:
    """The end of a text that is too long, from the beginning of a piece; one that isn't stays as it is."""
    left, begins = limit, len(text)
    for tokens, start, _ in reversed(list(_pieces(text))):
        left -= tokens
        if left < 0:
            return text[begins:]
        begins = start
    return text


def _pieces(text: str) -> Iterator[tuple[int, int, int]]:
    """Tokens, start and end of each piece of a text."""
    for found in _PIECE.finditer(text):
        code = ord(found[0][0])
        yield 1 if code < 0x800 else 2 if code < 0x10000 else 3, found.start(), found.end()
