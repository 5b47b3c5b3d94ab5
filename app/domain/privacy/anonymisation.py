"""Anonymise a memory that is retained on a legal ground, so that its text no longer identifies the person.

Only detected personal data is removed; that nobody can be identified from the rest isn't proven. Text about one person
can only be about that person, so a legal ground for retaining it is still required.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

_SHORTEST: Final = 2
"""Minimum length of names; a single letter would match in too many places."""


@dataclass(frozen=True, slots=True)
class RedactedSpan:
    """A span of a text, in characters, and the kind of data found there, such as `email`."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class AnonymisedMemory:
    """A memory's text without the removed data; its subject, speaker, thread and similar fields are cleared as well.

    Attributes:
        removed: Number of replacements by kind.
    """

    text: str
    removed: dict[str, int]


def anonymise_text(text: str, spans: Iterable[RedactedSpan], names: Sequence[str] = ()) -> AnonymisedMemory:
    """Replace personal data in a text by `[kind]`, and names by `[name]`.

    Args:
        text: The stored text.
        spans: Findings of detection; they may overlap, and are clipped to the text.
        names: Subject, speaker (unless it only names a role) and entities as given; matched as whole words in any case.
    """
    found = [RedactedSpan(max(each.start, 0), min(each.end, len(text)), each.kind) for each in spans]
    for name in sorted({name.strip() for name in names if len(name.strip()) >= _SHORTEST}, key=len, reverse=True):
        pattern = rf"(?<!\w){re.escape(name)}(?!\w)"
        found += [RedactedSpan(*match.span(), "name") for match in re.finditer(pattern, text, re.IGNORECASE)]
    kept, at, removed = list[str](), 0, dict[str, int]()
    for span in _merge_spans(found):
        kept += [text[at : span.start], f"[{span.kind}]"]
        at = span.end
        removed[span.kind] = removed.get(span.kind, 0) + 1
    return AnonymisedMemory("".join([*kept, text[at:]]), removed)


def _merge_spans(spans: Iterable[RedactedSpan]) -> list[RedactedSpan]:
    """Return the spans in order, merging overlapping ones under the kind of the longest."""
    apart: list[tuple[RedactedSpan, int]] = []
    for span in sorted((each for each in spans if each.start < each.end), key=lambda each: (each.start, -each.end)):
        length = span.end - span.start
        if apart and span.start < apart[-1][0].end:
            last, longest = apart[-1]
            kind = span.kind if length > longest else last.kind
            apart[-1] = RedactedSpan(last.start, max(last.end, span.end), kind), max(longest, length)
        else:
            apart.append((span, length))
    return [span for span, _ in apart]
