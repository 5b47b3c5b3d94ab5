"""Build the text that an embedder receives for a memory, and normalise vectors."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from app.domain.text.words import format_line

CONTEXT_TURNS = 2
"""Number of turns before a memory, and after it, that contribute to its vector."""
SHORT_WORDS = 25
"""Maximum number of content words of a text whose neighbouring turns count in full; with more words they count less, in
inverse proportion."""
PASSAGE_VERSION = "passage-1"
"""Version of `format_passage`; vectors of different versions cannot be compared."""
CONTEXT_MAX_CHARACTERS = 240
"""Truncation limit for an earlier turn in a passage."""


@dataclass(frozen=True, slots=True)
class MemoryText:
    """A memory as seen by an embedder.

    Attributes:
        text: The memory's text.
        speaker: Name of the speaker, if known; the text may also start with it.
        occurred_at: Time of the event, timezone-aware.
        context: Previous turns of its thread, nearest first, at most `CONTEXT_TURNS`, each prefixed with its speaker.
        after: Next turns of its thread in the same form; `format_passage` omits them.
    """

    text: str
    speaker: str | None = None
    occurred_at: datetime | None = None
    context: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The text, prefixed with its speaker."""
        return format_line(self.text, self.speaker)


def format_passage(memory: MemoryText) -> str:
    """Format a memory as one text for a model: date, speaker, text, then the previous turns, shortened.

    Empty if the memory's own text is blank.
    """
    if not memory.text.strip():
        return ""
    date = memory.occurred_at.date().isoformat() if memory.occurred_at else ""
    turns = [" ".join(turn.split())[:CONTEXT_MAX_CHARACTERS] for turn in reversed(memory.context[:CONTEXT_TURNS])]
    previous = " / ".join(filter(None, turns))
    return f"{date} {memory.line}".strip() + (f"\n(before: {previous})" if previous else "")


NO_LENGTH = 1e-12
"""Norm up to which a vector counts as zero, because its direction is only rounding noise."""


def normalise_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale rows to norm 1; a row with a norm up to `NO_LENGTH` becomes all zeros, so the result never contains NaN.

    Args:
        vectors: shape (n, dimensions) or (dimensions,), finite.
    """
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    has_direction = norms > NO_LENGTH
    scaled = np.divide(vectors, norms, out=np.zeros_like(vectors), where=has_direction)
    return np.asarray(scaled, dtype=np.float32)
