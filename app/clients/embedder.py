"""Text to vectors: what an embedder is, which there are, and the bundled one.

That one is static: a vector a word, looked up offline, no model to run.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from app.clients.answers import Usage
from app.domain.embedding import PASSAGE_VERSION, MemoryText, unit
from app.domain.recall.kin import Usual
from app.domain.wording import content_words
from app.errors import Misconfigured
from app.settings import settings

Vectors = NDArray[np.float32]
Spent = Callable[[Usage], object]

GONE_SECONDS: Final = 60.0
"""How long an embedder that couldn't be had isn't looked for again."""

CONTEXT_WEIGHTS = (0.3, 0.2)
"""Share of the previous turn's vector, and of the one before, in a memory's own."""

_SPELLINGS = 100_000
"""Words whose tokens are remembered; then the memory is emptied."""
_COMMON_WORDS = 8_000
_WHOLE_WORD = re.compile("\u2581[a-z]{2,}")
"""A token that is a word of its own, rather than a piece of one."""
_SLICE_WORDS = 16_384
"""Word vectors gathered at a time: 16 MiB at 256 dimensions."""


class NoEmbedder(Exception):
    """The embedder of a space can't be had in this process; the message says why, and holds names alone."""


def unnoted(_: Usage) -> None:
    """Nobody asks what it cost."""


class Embedder(Protocol):
    """A model that turns texts into vectors of one embedding space."""

    @property
    def model(self) -> str:
        """Name of the model, with whatever else makes its vectors incomparable to others."""

    @property
    def dimensions(self) -> int:
        """Length of a vector."""

    @property
    def normalised(self) -> bool:
        """Whether every vector has length 1 (or 0, where a text has no meaning to the model)."""

    @property
    def priced_as(self) -> str | None:
        """Name of what is paid for, as in the setting `PRICES`; None where calls cost nothing."""

    def embed_memories(self, batch: Sequence[MemoryText], spent: Spent = unnoted) -> Vectors:
        """Vectors of memories, shape (n, dimensions), float32, finite.

        Args:
            batch: The memories.
            spent: Told what each call cost.
        """

    def embed_query(self, text: str, idf: Mapping[str, float], spent: Spent = unnoted) -> Vectors:
        """The vector of a query, shape (dimensions,), float32, finite.

        Args:
            text: The query.
            idf: Rarity of the query's content words among the tenant's memories, 0 or more; a model that
                weighs words by itself has no use for it.
            spent: Told what each call cost.
        """


class StaticEmbedder:
    """wordllama's word vectors: the unit mean of the content words, with a share of the previous two turns.

    A text without anything the model knows (an empty one, say) gets the zero vector, which is near nothing.
    One object may be used by many threads.
    """

    normalised = True
    priced_as = None
    model = "wordllama-l2-supercat+context"
    """Name of the weights, and of the way in which words become a memory's vector."""

    def __init__(self) -> None:
        self._matrix, self._tokenizer = _load()
        self._tokens: dict[str, list[int]] = {}

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return int(self._matrix.shape[1])

    def embed_memories(self, batch: Sequence[MemoryText], spent: Spent = unnoted) -> Vectors:  # noqa: ARG002 - free
        """Vectors of memories, shape (n, dimensions); length 1, or 0 for a text without anything known."""
        lines = [memory.line for memory in batch]
        places: dict[str, int] = {}
        for line in lines:
            places.setdefault(line, len(places))
        for memory in batch:
            for line in memory.context[: len(CONTEXT_WEIGHTS)]:
                places.setdefault(line, len(places))
        alone = self._means([_asked(line) for line in places])
        vectors: Vectors = alone[[places[line] for line in lines]]
        for turn, weight in enumerate(CONTEXT_WEIGHTS):
            here = [n for n, memory in enumerate(batch) if turn < len(memory.context)]
            there = [places[batch[n].context[turn]] for n in here]
            vectors[here] += np.float32(weight) * alone[there]
        return unit(vectors)

    def embed_query(self, text: str, idf: Mapping[str, float], spent: Spent = unnoted) -> Vectors:  # noqa: ARG002
        """Unit sum of the query's content words, each by its rarity; a word that `idf` lacks weighs 1."""
        asked = _asked(text)
        weights = np.array([idf.get(word, 1.0) for word in asked], dtype=np.float32)
        return unit(weights @ self._word_vectors(asked))

    def unit_vectors(self, words: Sequence[str]) -> Vectors:
        """Return the vector of each word by itself, shape (n, dimensions), of length 1, or 0 for an unknown word."""
        return unit(self._word_vectors(words))

    @cached_property
    def usual(self) -> Usual:
        """The usual cosines of a word: those with the first `_COMMON_WORDS` whole lower-case words of the vocabulary.

        The vocabulary is ordered by frequency. Only the moments are retained, half a MiB at 256 dimensions.
        """
        tokens = sorted(self._tokenizer.get_vocab().items(), key=itemgetter(1))
        whole = [number for token, number in tokens if _WHOLE_WORD.fullmatch(token)]
        return Usual.from_vectors(unit(self._matrix[whole[:_COMMON_WORDS]]))

    def _means(self, texts: Sequence[Sequence[str]]) -> Vectors:
        """Unit mean of the word vectors of each text, shape (n, dimensions)."""
        rows: dict[str, int] = {}
        for text in texts:
            for word in text:
                rows.setdefault(word, len(rows))
        vectors = self._word_vectors(list(rows))
        sums = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for part in _slices(texts):
            flat = [rows[word] for n in part for word in texts[n]]
            ends = np.cumsum([len(texts[n]) for n in part])
            sums[part] = np.add.reduceat(vectors[flat], np.concatenate(([0], ends[:-1])), axis=0)
        return unit(sums)

    def _word_vectors(self, words: Sequence[str]) -> Vectors:
        """Mean of each word's token vectors, shape (n, dimensions); zero for a word without tokens."""
        self._learn(words)
        tokens = [self._tokens[word] for word in words]
        vectors = np.zeros((len(words), self.dimensions), dtype=np.float32)
        known = [n for n, ids in enumerate(tokens) if ids]
        if known:
            sizes = np.array([len(tokens[n]) for n in known])
            flat = self._matrix[[token for n in known for token in tokens[n]]]
            sums = np.add.reduceat(flat, np.concatenate(([0], np.cumsum(sizes)[:-1])), axis=0)
            vectors[known] = sums / sizes[:, None].astype(np.float32)
        return vectors

    def _learn(self, words: Sequence[str]) -> None:
        """See that the tokens of these words are at hand."""
        fresh = [word for word in words if word not in self._tokens]
        if fresh:
            encoded = self._tokenizer.encode_batch_fast(fresh, add_special_tokens=False)
            found = {word: encoding.ids for word, encoding in zip(fresh, encoded, strict=True)}
            if len(self._tokens) + len(found) > _SPELLINGS:
                found |= {word: self._tokens[word] for word in words if word not in found}
                self._tokens = found
            else:
                self._tokens.update(found)


def _asked(text: str) -> list[str]:
    """What a text is looked up by: its content words, or else its signs (emoji) as they are."""
    return content_words(text) or text.split()


def _slices(texts: Sequence[Sequence[str]]) -> Iterator[list[int]]:
    """Places of the texts that have words, in slices of about `_SLICE_WORDS` words."""
    part: list[int] = []
    size = 0
    for n, text in enumerate(texts):
        if not text:
            continue
        part.append(n)
        size += len(text)
        if size >= _SLICE_WORDS:
            yield part
            part, size = [], 0
    if part:
        yield part


@lru_cache(maxsize=1)
def embedder() -> Embedder:
    """The embedder that the settings name, loaded on first use (the bundled one in about 0.2 s and 60 MB).

    Raises:
        Misconfigured: They name one that can't be.
    """
    config = settings()
    if config.embedder == "local":
        return StaticEmbedder()
    if config.embedder == "openai":
        from app.clients import openai_embedder  # noqa: PLC0415 - half a second and 40 MB that the bundled one spares

        return openai_embedder.from_settings(config)
    from app.clients import local_models  # noqa: PLC0415 - only where it is asked for

    return local_models.load(config.embedder, config.embedder_model)


_lock = threading.Lock()
_others: dict[tuple[str, str, int], Embedder] = {}
_gone: dict[tuple[str, str, int], tuple[float, str]] = {}


def embedder_of(kind: str, model: str, dimensions: int) -> Embedder:
    """The embedder of a space that needn't be the settings' one, kept once it is loaded.

    Args:
        kind: A value of the setting `EMBEDDER`.
        model: The space's model, as `Embedder.model` has it.
        dimensions: The space's.

    Raises:
        NoEmbedder: It can't be had here, or makes other vectors now. The next `GONE_SECONDS` it isn't tried again.
    """
    key = (kind, model, dimensions)
    with _lock:  # a model is loaded once, however many ask
        since, reason = _gone.get(key, (-GONE_SECONDS, ""))
        if key not in _others and time.monotonic() - since < GONE_SECONDS:
            raise NoEmbedder(reason)
        try:
            return _others.setdefault(key, _others.get(key) or _opened(*key))
        except (NoEmbedder, Misconfigured) as error:
            _gone[key] = (time.monotonic(), str(error))
            raise NoEmbedder(str(error)) from error


def _opened(kind: str, model: str, dimensions: int) -> Embedder:
    found = _found(kind, model, dimensions)
    if (found.model, found.dimensions) != (model, dimensions):
        raise NoEmbedder(f"{found.model} with {found.dimensions} dimensions has taken its place")
    return found


def _found(kind: str, model: str, dimensions: int) -> Embedder:
    if kind == "local":
        return StaticEmbedder()
    name, _, version = model.rpartition("+")
    if version != PASSAGE_VERSION:
        raise NoEmbedder(f"this version of Ebbing makes {PASSAGE_VERSION} of a memory")
    if kind == "openai":
        from app.clients import openai_embedder  # noqa: PLC0415 - as above

        if not settings().has_provider:
            raise NoEmbedder("no provider is given")
        return openai_embedder.of_space(settings(), name, dimensions)
    if kind in {"fastembed", "sentence-transformers"}:
        from app.clients import local_models  # noqa: PLC0415 - as above

        return local_models.load(kind, name.removeprefix(f"{kind}:"))
    raise NoEmbedder(f"{kind} is no embedder of this version")


def _load() -> tuple[Vectors, Any]:
    """The word matrix, shape (tokens, dimensions), and the tokenizer, from the installed package; offline."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    import wordllama  # noqa: PLC0415 - heavy, and it sets up logging, which is undone below

    for handler in [handler for handler in root.handlers if handler not in handlers]:
        root.removeHandler(handler)
    root.setLevel(level)
    folder = Path(wordllama.__file__).parent
    model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    model.tokenizer.no_padding()
    return model.embedding, model.tokenizer
