"""Rankings without the service, on the same memories and questions: the minimum that a mode should exceed.

- `bm25-b0.4`, `bm25-b0.75`: BM25 (k1 .9) by the library bm25s with its own tokens and English stop words.
- `mean`: cosine of the unweighted mean of wordllama's token vectors, over the whole text.
- `mean-300`: the same over the first 300 characters of each text.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, Protocol

import bm25s
import numpy as np
from numpy.typing import NDArray

from app.domain.ingest.roles import speaker_name
from app.domain.text.embedding_input import normalise_rows
from app.domain.text.words import format_line
from ops.recall.dataset import Memory

K1: Final = 0.9
CHARACTERS: Final = 300
_BATCH: Final = 8
"""Number of texts embedded together; each takes as much RAM as the longest."""


class Baseline(Protocol):
    """An index of some lines."""

    def scores(self, query: str) -> NDArray[np.float32]:
        """Return the scores of the lines for a query, shape (lines,); higher is better."""


class Bm25:
    """BM25 over words."""

    def __init__(self, lines: Sequence[str], b: float) -> None:
        """Index the lines; `b` is the weight of their length, 0 to 1."""
        self._lines = len(lines)
        words = [_words(line) for line in lines]
        self._index: Any = bm25s.BM25(k1=K1, b=b) if any(words) else None
        if self._index:
            self._index.index(words, show_progress=False)

    def scores(self, query: str) -> NDArray[np.float32]:
        """Return BM25 scores, shape (lines,); 0 for a line without any word of the query."""
        asked = _words(query)
        if not asked or not self._index:
            return np.zeros(self._lines, dtype=np.float32)
        return np.asarray(self._index.get_scores(asked), dtype=np.float32)


class PlainMean:
    """Cosine of unweighted means of token vectors."""

    def __init__(self, lines: Sequence[str], characters: int | None = None) -> None:
        """Embed the first `characters` of each line; None embeds the whole lines."""
        self._vectors = _embed([line[:characters] for line in lines])

    def scores(self, query: str) -> NDArray[np.float32]:
        """Return cosines, shape (lines,), -1 to 1."""
        return np.asarray(self._vectors @ _embed([query])[0], dtype=np.float32)


BASELINES: Final[Mapping[str, Callable[[Sequence[str]], Baseline]]] = {
    "bm25-b0.4": partial(Bm25, b=0.4),
    "bm25-b0.75": partial(Bm25, b=0.75),
    "mean": PlainMean,
    "mean-300": partial(PlainMean, characters=CHARACTERS),
}


class Ranker:
    """A baseline over the memories of a conversation."""

    def __init__(self, name: str, memories: Sequence[Memory]) -> None:
        """Index the memories as the service sees them: with a person's name in front, but not a role's."""
        self._ids = [memory.id for memory in memories]
        self._baseline = BASELINES[name](
            [format_line(memory.text, speaker_name(memory.speaker)) for memory in memories]
        )

    def search(self, query: str, limit: int) -> list[str]:
        """Return the ids of the best memories, the best first; ties by age, the earlier first."""
        order = np.argsort(-self._baseline.scores(query), kind="stable")
        return [self._ids[place] for place in order[:limit].tolist()]


def _words(text: str) -> list[str]:
    """Return the tokens that bm25s extracts from a text by default."""
    found: list[str] = bm25s.tokenize([text], return_ids=False, show_progress=False)[0]
    return [word for word in found if word]


def _embed(texts: list[str]) -> NDArray[np.float32]:
    """Return the unit means of the texts' token vectors, shape (texts, dimensions)."""
    return normalise_rows(np.asarray(_model().embed(texts, batch_size=_BATCH), dtype=np.float32))


@lru_cache(maxsize=1)
def _model() -> Any:
    # wordllama configures logging on import, but not if the root logger has a handler.
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)
    import wordllama  # noqa: PLC0415 - heavy, and only some baselines need it

    root.removeHandler(handler)
    return wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
