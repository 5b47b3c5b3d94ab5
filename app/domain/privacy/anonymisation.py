"""Anonymise a memory that is retained on a legal ground, so that its text no longer identifies the person.

Only detected personal data is removed, so the remaining text may still identify a person. The text still describes
one person's life, so retaining the memory requires a legal ground even after anonymisation.
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
        names: Subject, speaker (unless it is only a role) and entities; matched as whole words, ignoring case.
    """
    removable = [RedactedSpan(max(finding.start, 0), min(finding.end, len(text)), finding.kind) for finding in spans]
    for name in sorted({name.strip() for name in names if len(name.strip()) >= _SHORTEST}, key=len, reverse=True):
        pattern = rf"(?<!\w){re.escape(name)}(?!\w)"
        removable += [RedactedSpan(*match.span(), "name") for match in re.finditer(pattern, text, re.IGNORECASE)]
    pieces, position, removed = list[str](), 0, dict[str, int]()
    for span in _merge_spans(removable):
        pieces += [text[position : span.start], f"[{span.kind}]"]
        position = span.end
        removed[span.kind] = removed.get(span.kind, 0) + 1
    return AnonymisedMemory("".join([*pieces, text[position:]]), removed)


def _merge_spans(spans: Iterable[RedactedSpan]) -> list[RedactedSpan]:
    """Return the spans in order, with overlapping spans merged under the kind of the longest span."""
    merged: list[tuple[RedactedSpan, int]] = []
    for span in sorted(
        (candidate for candidate in spans if candidate.start < candidate.end),
        key=lambda candidate: (candidate.start, -candidate.end),
    ):
        length = span.end - span.start
        if merged and span.start < merged[-1][0].end:
            last, longest = merged[-1]
            kind = span.kind if length > longest else last.kind
            merged[-1] = RedactedSpan(last.start, max(last.end, span.end), kind), max(longest, length)
        else:
            merged.append((span, length))
    return [span for span, _ in merged]
