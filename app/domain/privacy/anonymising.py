"""What is left of a memory that a legal ground keeps, once nothing in it says whose it is.

What is known to be personal is taken out; that nobody can be told from the rest isn't proven by it. A text about one
person can be about nobody else, so whoever keeps it must have a ground for it still.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

_SHORTEST: Final = 2
"""Names of one letter are left: they are in every word."""


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a text, in characters, and what was found there, such as `email`."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class Anonymous:
    """A memory's text without what was found in it; its subject, speaker, thread and the like are emptied.

    Attributes:
        removed: How often something of each kind was replaced.
    """

    text: str
    removed: dict[str, int]


def anonymised(text: str, spans: Iterable[Span], names: Sequence[str] = ()) -> Anonymous:
    """A text with `[kind]` where something personal was found, and `[name]` where one of the names is.

    Args:
        text: As it is stored.
        spans: What detection has found; they may overlap, and those beyond the text are cut.
        names: Subject, speaker (unless it only names a role) and entities as they were given; whole words, whatever
            their case.
    """
    found = [Span(max(each.start, 0), min(each.end, len(text)), each.kind) for each in spans]
    for name in sorted({name.strip() for name in names if len(name.strip()) >= _SHORTEST}, key=len, reverse=True):
        pattern = rf"(?<!\w){re.escape(name)}(?!\w)"
        found += [Span(*match.span(), "name") for match in re.finditer(pattern, text, re.IGNORECASE)]
    kept, at, removed = list[str](), 0, dict[str, int]()
    for span in _apart(found):
        kept += [text[at : span.start], f"[{span.kind}]"]
        at = span.end
        removed[span.kind] = removed.get(span.kind, 0) + 1
    return Anonymous("".join([*kept, text[at:]]), removed)


def _apart(spans: Iterable[Span]) -> list[Span]:
    """In order, those that overlap put together; the longest of them says what it is."""
    apart: list[tuple[Span, int]] = []
    for span in sorted((each for each in spans if each.start < each.end), key=lambda each: (each.start, -each.end)):
        length = span.end - span.start
        if apart and span.start < apart[-1][0].end:
            last, longest = apart[-1]
            kind = span.kind if length > longest else last.kind
            apart[-1] = Span(last.start, max(last.end, span.end), kind), max(longest, length)
        else:
            apart.append((span, length))
    return [span for span, _ in apart]
