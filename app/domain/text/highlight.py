"""The part of a long text that matches a query best: windows of about 300 characters by sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from app.domain.consolidation.facts import stem
from app.domain.text.wording import content_words

WINDOW_CHARACTERS: Final = 300
_FENCE: Final = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_SENTENCE_END: Final = re.compile(r"[.!?…]['\")\]’”]*(?=\s)|[\u3002\uff01\uff1f]|\n")


class Span(NamedTuple):
    """A part of a text: from `start` up to, but without, `end`; it neither begins nor ends with white space."""

    start: int
    end: int


def highlight(text: str, weights: Mapping[str, float], most: int = 1) -> list[Span]:
    """Return the windows that match the query's words best, in the order of the text; none of a blank text.

    A window counts the sum of the weights of the words that it has, each once. Where windows are equal, or none has
    any of the words, the first wins.

    Args:
        text: The text.
        weights: The query's words and their weights, above 0; a word matches its other forms.
        most: Most windows.
    """
    by_stem: dict[str, float] = {}
    for word, weight in weights.items():
        by_stem[stem(word)] = max(weight, by_stem.get(stem(word), 0.0))
    spans = windows(text)
    counts = [sum(by_stem.get(each, 0.0) for each in stems(text[start:end])) for start, end in spans]
    best = sorted(range(len(spans)), key=lambda place: (-counts[place], place))[:most]
    return [spans[place] for place in sorted(best)]


def excerpt(text: str, spans: list[Span], gap: str = " … ") -> str:
    """Return these parts of a text as one, with an ellipsis wherever something is left out."""
    if not spans:
        return ""
    joined = text[spans[0].start : spans[0].end]
    for before, span in pairwise(spans):
        between = text[before.end : span.start]
        joined += (between if between.isspace() else gap) + text[span.start : span.end]
    return ("… " if text[: spans[0].start].strip() else "") + joined + (" …" if text[spans[-1].end :].strip() else "")


def stems(text: str) -> set[str]:
    """Return the stems of the content words of a text."""
    return {stem(word) for word in content_words(text)}


def windows(text: str, size: int = WINDOW_CHARACTERS) -> list[Span]:
    """Return the windows of a text in order: whole sentences, as many as fit; together they hold all but white space.

    A line of a code block counts as a sentence. A sentence that doesn't fit by itself is cut between words, where it
    has any.
    """
    found: list[Span] = []
    for part in sentences(text, size):
        if found and part.end - found[-1].start <= size:
            found[-1] = Span(found[-1].start, part.end)
        else:
            found.append(part)
    return found


def sentences(text: str, size: int) -> Iterator[Span]:
    """Yield the sentences of a text in order, and the lines of its code blocks; a longer one in parts of the size."""
    for start, end in _sentences(text):
        yield from _fitted(text, start, end, size)


def _sentences(text: str) -> Iterator[Span]:
    """Return the sentences of the text, and the lines of its code blocks."""
    at = 0
    for block in _FENCE.finditer(text):
        yield from _split(text, at, block.start(), _SENTENCE_END)
        yield from _split(text, block.start(), block.end(), _LINE_END)
        at = block.end()
    yield from _split(text, at, len(text), _SENTENCE_END)


_LINE_END: Final = re.compile(r"\n")


def _split(text: str, start: int, end: int, ends: re.Pattern[str]) -> Iterator[Span]:
    for found in ends.finditer(text, start, end):
        yield from _trimmed(text, start, found.end())
        start = found.end()
    yield from _trimmed(text, start, end)


def _trimmed(text: str, start: int, end: int) -> Iterator[Span]:
    """Return the part without white space around it; nothing where it is blank."""
    said = text[start:end]
    if said.strip():
        yield Span(start + len(said) - len(said.lstrip()), start + len(said.rstrip()))


def _fitted(text: str, start: int, end: int, size: int) -> Iterator[Span]:
    """Return a sentence in parts of the size at most."""
    while end - start > size:
        blank = max(text.rfind(" ", start + 1, start + size + 1), text.rfind("\n", start + 1, start + size + 1))
        cut = blank if blank > start else start + size
        yield from _trimmed(text, start, cut)
        while cut < end and text[cut].isspace():
            cut += 1
        start = cut
    if end > start:
        yield Span(start, end)
