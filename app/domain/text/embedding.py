"""What an embedder is given of a memory, and the arithmetic of vectors that needs no model."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from app.domain.text.wording import spoken

CONTEXT_TURNS = 2
"""Turns of its thread before a memory, and after it, that its vector takes in."""
SHORT_WORDS = 25
"""Content words up to which the neighbouring turns count in full; of a longer text, in proportion less."""
PASSAGE_VERSION = "passage-1"
"""Names what `passage` makes of a memory; vectors of another can't be compared."""
CONTEXT_MAX_CHARACTERS = 240
"""How much of an earlier turn a passage holds."""


@dataclass(frozen=True, slots=True)
class MemoryText:
    """A memory as its embedder sees it.

    Attributes:
        text: Its text.
        speaker: Who said it, where known; the text may begin with the name too.
        occurred_at: When it happened, with an offset.
        context: The turns before it in its thread, the nearest first, at most `CONTEXT_TURNS`, each with its
            speaker in front.
        after: The turns after it, the nearest first, likewise; a model that reads is not given them.
    """

    text: str
    speaker: str | None = None
    occurred_at: datetime | None = None
    context: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The text with its speaker in front."""
        return spoken(self.text, self.speaker)


def passage(memory: MemoryText) -> str:
    """A memory as one text for a model that reads: date, speaker, text, then the turns before it in short.

    Empty where the memory's own text is blank.
    """
    if not memory.text.strip():
        return ""
    date = memory.occurred_at.date().isoformat() if memory.occurred_at else ""
    before = [" ".join(turn.split())[:CONTEXT_MAX_CHARACTERS] for turn in reversed(memory.context[:CONTEXT_TURNS])]
    said_before = " / ".join(filter(None, before))
    return f"{date} {memory.line}".strip() + (f"\n(before: {said_before})" if said_before else "")


NO_LENGTH = 1e-12
"""Length of a vector up to which its direction is noise of rounding."""


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows scaled to length 1; a row without direction stays all zero, so there is never a NaN.

    Args:
        vectors: shape (n, dimensions) or (dimensions,), finite.
    """
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    known = length > NO_LENGTH
    scaled = np.divide(vectors, length, out=np.zeros_like(vectors), where=known)
    return np.asarray(scaled, dtype=np.float32)
