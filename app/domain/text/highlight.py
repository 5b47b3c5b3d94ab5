"""Find the parts of a long text that match a query best: windows of about 300 characters of whole sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from app.domain.consolidation.facts import stem
from app.domain.text.words import content_words

WINDOW_CHARACTERS: Final = 300
_FENCE: Final = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_SENTENCE_END: Final = re.compile(r"[.!?…]['\")\]’”]*(?=\s)|[\u3002\uff01\uff1f]|\n")


class TextSpan(NamedTuple):
    """A half-open range of a text, from `start` to before `end`, without surrounding white space."""

    start: int
    end: int


def find_highlights(text: str, weights: Mapping[str, float], most: int = 1) -> list[TextSpan]:
    """Return the windows that match the query's words best, in text order; none for a blank text.

    A window's score is the sum of the weights of its distinct matching words. The first window wins a tie, even at a
    score of 0.

    Args:
        weights: The query's words with their weights, above 0; a word also matches its other forms.
        most: Maximum number of windows.
    """
    by_stem: dict[str, float] = {}
    for word, weight in weights.items():
        by_stem[stem(word)] = max(weight, by_stem.get(stem(word), 0.0))
    spans = split_windows(text)
    scores = [sum(by_stem.get(word_stem, 0.0) for word_stem in stems(text[start:end])) for start, end in spans]
    best = sorted(range(len(spans)), key=lambda place: (-scores[place], place))[:most]
    return [spans[place] for place in sorted(best)]


def join_excerpt(text: str, spans: list[TextSpan], gap: str = " … ") -> str:
    """Join these parts of a text, with an ellipsis for every omission."""
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


def split_windows(text: str, size: int = WINDOW_CHARACTERS) -> list[TextSpan]:
    """Return the windows of a text in order, each with as many whole sentences as fit; no text is left out.

    A line of a code block counts as a sentence. A sentence longer than a window is cut, between words if possible.
    """
    windows: list[TextSpan] = []
    for part in split_sentences(text, size):
        if windows and part.end - windows[-1].start <= size:
            windows[-1] = TextSpan(windows[-1].start, part.end)
        else:
            windows.append(part)
    return windows


def split_sentences(text: str, size: int) -> Iterator[TextSpan]:
    """Yield the sentences of a text and the lines of its code blocks in order, cut to the size if longer."""
    for start, end in _yield_sentences(text):
        yield from _split_long(text, start, end, size)


def _yield_sentences(text: str) -> Iterator[TextSpan]:
    """Yield the sentences of a text and the lines of its code blocks."""
    at = 0
    for block in _FENCE.finditer(text):
        yield from _split(text, at, block.start(), _SENTENCE_END)
        yield from _split(text, block.start(), block.end(), _LINE_END)
        at = block.end()
    yield from _split(text, at, len(text), _SENTENCE_END)


_LINE_END: Final = re.compile(r"\n")


def _split(text: str, start: int, end: int, ends: re.Pattern[str]) -> Iterator[TextSpan]:
    for match in ends.finditer(text, start, end):
        yield from _trim(text, start, match.end())
        start = match.end()
    yield from _trim(text, start, end)


def _trim(text: str, start: int, end: int) -> Iterator[TextSpan]:
    """Yield the span without surrounding white space; nothing if it is blank."""
    part = text[start:end]
    if part.strip():
        yield TextSpan(start + len(part) - len(part.lstrip()), start + len(part.rstrip()))


def _split_long(text: str, start: int, end: int, size: int) -> Iterator[TextSpan]:
    """Yield a sentence in parts of at most this size."""
    while end - start > size:
        blank = max(text.rfind(" ", start + 1, start + size + 1), text.rfind("\n", start + 1, start + size + 1))
        cut = blank if blank > start else start + size
        yield from _trim(text, start, cut)
        while cut < end and text[cut].isspace():
            cut += 1
        start = cut
    if end > start:
        yield TextSpan(start, end)
