"""The bundled embedder: static word vectors, looked up offline; no model runs.

The vectors are wordllama's. Two ways of composing a memory's vector from them exist: the present one, and the one
before it, which serves tenants until `ebbing reembed` has moved them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from app.clients.embedding.word_table import WordTable, firsts
from app.clients.llm.answers import Spent, unnoted
from app.domain.recall.kin import Usual
from app.domain.text.embedding import NO_LENGTH, SHORT_WORDS, MemoryText, unit
from app.domain.text.wording import content_words, words

Vectors = NDArray[np.float32]

BEFORE_WEIGHTS: Final = (0.2, 0.12)
"""Share of the previous turn's vector, and of the one before it, in the vector of a short memory."""
AFTER_WEIGHTS: Final = (0.2, 0.12)
"""Share of the next turn's vector, and of the one after it, likewise."""
SENTENCE_WEIGHT: Final = 0.5
"""Share of the plain mean of all words, stop words included, in a query's vector."""
RARITY_RANGE: Final = (0.3, 4.5)
"""Bounds of a word's general rarity; a word of several tokens has the upper one."""
COMMON_TOKEN: Final = 300
"""Token id at which the general rarity is 0: ids follow frequency, so a larger id means a rarer word."""

_COMMON_WORDS = 8_000
_WHOLE_WORD = re.compile("\u2581[a-z]{2,}")
"""A token that is a word of its own, rather than a piece of one."""
_SPELLINGS = 100_000
"""Words whose tokens are remembered; then the memory is emptied."""
_SLICE_WORDS = 16_384
"""Word vectors gathered at a time: 16 MiB at 256 dimensions."""


class WordVectors:
    """The vector of each word: the mean of its tokens' vectors. One object may be used by many threads."""

    def __init__(self) -> None:
        """Load the vectors, in about 0.2 s and 60 MB."""
        self._matrix, self._tokenizer = _load()
        self._table = WordTable(self._encode)
        self._measured: tuple[WordTable, Vectors] | None = None

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return int(self._matrix.shape[1])

    @cached_property
    def usual(self) -> Usual:
        """The usual cosines of a word: those with the first `_COMMON_WORDS` whole lower-case words of the vocabulary.

        The vocabulary is ordered by frequency. Only the moments are retained, half a MiB at 256 dimensions.
        """
        return Usual.from_vectors(unit(self._matrix[list(self._common_words().values())]))

    def nearest(self, spellings: Sequence[str], least: float, most: int) -> dict[str, list[str]]:
        """Return the common words nearest to each common word, the nearest first, without the word itself.

        A word that isn't common is made of pieces, which are near to pieces: it has none.

        Args:
            spellings: The words.
            least: Cosine that a word needs.
            most: Words that are returned of each.
        """
        common = self._common_words()
        names = list(common)
        spellings = [word for word in spellings if word in common]
        cosines = self.unit_vectors(spellings) @ unit(self._matrix[list(common.values())]).T
        best = np.argsort(-cosines, axis=1, kind="stable")[:, : most + 1]
        return {
            word: [names[n] for n in best[row] if cosines[row, n] >= least and names[n] != word][:most]
            for row, word in enumerate(spellings)
        }

    def _common_words(self) -> dict[str, int]:
        """Return the tokens of the first `_COMMON_WORDS` whole lower-case words by their spelling."""
        tokens = sorted(self._tokenizer.get_vocab().items(), key=itemgetter(1))
        whole = [(token[1:], number) for token, number in tokens if _WHOLE_WORD.fullmatch(token)]
        return dict(whole[:_COMMON_WORDS])

    def vectors(self, spellings: Sequence[str]) -> Vectors:
        """Return each word's vector, shape (n, dimensions); zero for a word without tokens."""
        tokens, sizes = self._tokens_of(spellings)
        return _means(np.asarray(self._matrix[tokens], np.float32), sizes)

    def unit_vectors(self, spellings: Sequence[str]) -> Vectors:
        """Return the vector of each word, shape (n, dimensions), of length 1, or 0 for an unknown word."""
        return unit(self.vectors(spellings))

    def rarity(self, spellings: Sequence[str]) -> NDArray[np.float64]:
        """Return how rare each word is in general, 0.3 to 4.5, shape (n,); 1 for a word without tokens."""
        least, most = RARITY_RANGE
        tokens, sizes = self._tokens_of(spellings)
        found = np.where(sizes > 0, most, 1.0)
        single = np.maximum(tokens[np.repeat(sizes == 1, sizes)], 1)
        found[sizes == 1] = np.clip(np.log(single / COMMON_TOKEN), least, most)
        return found

    def closest(self, asked: Sequence[str], texts: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        """Return the largest cosine, at least 0, of each asked word to any word of each text.

        Args:
            asked: Words of a query.
            texts: Words of each text; a text may have none.

        Returns:
            Shape (len(texts), len(asked)).
        """
        found = np.zeros((len(texts), len(asked)))
        sizes = np.fromiter(map(len, texts), np.intp, len(texts))
        some = np.flatnonzero(sizes)
        if some.size and asked:
            table = self._known()
            distinct, places = np.unique(table.rows(list(chain.from_iterable(texts))), return_inverse=True)
            cosines = self._cosines(table, distinct, asked)
            found[some] = np.maximum.reduceat(cosines[places], firsts(sizes[some]), axis=0)
        return np.maximum(found, 0.0, out=found)

    def _cosines(self, table: WordTable, rows: NDArray[np.intp], asked: Sequence[str]) -> Vectors:
        """Return the cosine of each word to each asked word, shape (words, asked); 0 for a word without tokens.

        A token that several words share is multiplied once: a word's product is the mean of its tokens' products.
        """
        tokens, sizes = table.tokens(rows)
        distinct, places = np.unique(tokens, return_inverse=True)
        vectors = np.asarray(self._matrix[distinct], np.float32)
        products = _means((vectors @ self.unit_vectors(asked).T)[places], sizes)
        lengths = self._lengths(table, rows)[:, None]
        return np.divide(products, lengths, out=np.zeros_like(products), where=lengths > NO_LENGTH)

    def _lengths(self, table: WordTable, rows: NDArray[np.intp]) -> Vectors:
        """Return the length of the vector of each word, shape (n,)."""
        known = self._measured
        if known is None or known[0] is not table or len(known[1]) < len(table):
            first = len(known[1]) if known is not None and known[0] is table else 0
            tokens, sizes = table.tokens(np.arange(first, len(table)))
            fresh = np.linalg.norm(_means(np.asarray(self._matrix[tokens], np.float32), sizes), axis=1)
            known = table, np.concatenate((known[1][:first], fresh)) if known is not None and first else fresh
            self._measured = known
        return known[1][rows]

    def _tokens_of(self, spellings: Sequence[str]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        table = self._known()
        return table.tokens(table.rows(spellings))

    def _known(self) -> WordTable:
        """Return the words that were looked up; once they are too many, a new table."""
        if len(self._table) > _SPELLINGS:
            self._table = WordTable(self._encode)
        return self._table

    def _encode(self, words: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(words, add_special_tokens=False)]


def _means(rows: Vectors, sizes: NDArray[np.intp]) -> Vectors:
    """Return the mean of each run of rows, shape (runs, columns); zero for a run of none."""
    means = np.zeros((len(sizes), rows.shape[1]), np.float32)
    some = np.flatnonzero(sizes)
    if some.size:
        sums = np.add.reduceat(rows, firsts(sizes[some]), axis=0)
        means[some] = sums / sizes[some, None].astype(np.float32)
    return means


@lru_cache(maxsize=1)
def word_vectors() -> WordVectors:
    """Return the word vectors, loaded on first use."""
    return WordVectors()


class StaticEmbedder:
    """Vectors of memories from those of their words, each weighted by how rare the word is in general.

    A short memory's vector holds a share of the two turns before and after it: the shorter it is, the less it says
    by itself. A text without any known word (an empty one, say) gets the zero vector, which is near nothing.
    """

    normalised = True
    priced_as = None
    model = "wordllama-l2-supercat+turns"
    """Name of the weights, and of the way in which words become a memory's vector."""

    def __init__(self) -> None:
        """Share the process's word vectors."""
        self._words = word_vectors()

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return self._words.dimensions

    def embed_memories(self, batch: Sequence[MemoryText], spent: Spent = unnoted) -> Vectors:  # noqa: ARG002 - free
        """Return vectors of memories, shape (n, dimensions); length 1, or 0 for a text without any known word."""
        places = _places(line for each in batch for line in (each.line, *each.context, *each.after))
        looked_up = [_looked_up(line) for line in places]
        alone = self._sums(looked_up)
        lines = [places[memory.line] for memory in batch]
        vectors: Vectors = alone[lines]
        openness = np.array([min(1.0, SHORT_WORDS / max(len(looked_up[line]), 1)) for line in lines], np.float32)
        _add_turns(vectors, alone, places, [memory.context for memory in batch], BEFORE_WEIGHTS, openness)
        _add_turns(vectors, alone, places, [memory.after for memory in batch], AFTER_WEIGHTS, openness)
        return unit(vectors)

    def embed_query(self, text: str, idf: Mapping[str, float], spent: Spent = unnoted) -> Vectors:  # noqa: ARG002
        """Return the query's vector: its content words by rarity here and in general, and all words' plain mean.

        A word that `idf` lacks has the rarity 1 here.
        """
        content = list(dict.fromkeys(_looked_up(text)))
        weights = np.array([idf.get(word, 1.0) for word in content]) * (1 + self._words.rarity(content))
        by_rarity = unit(weights.astype(np.float32) @ self._words.vectors(content))
        plain = unit(self._words.vectors(words(text)).sum(axis=0))
        return unit(by_rarity + np.float32(SENTENCE_WEIGHT) * plain)

    def _sums(self, texts: Sequence[Sequence[str]]) -> Vectors:
        """Return the unit sum of each text's distinct words by their general rarity, shape (n, dimensions)."""
        return _summed(self._words, [list(dict.fromkeys(text)) for text in texts], weighted=True)


class FormerStaticEmbedder:
    """The composition before `StaticEmbedder`: plain means of content words, with the two turns before alone.

    It serves tenants whose vectors were made by it, until they have been moved.
    """

    normalised = True
    priced_as = None
    model = "wordllama-l2-supercat+context"
    """Name of the weights, and of the way in which words become a memory's vector."""

    _CONTEXT_WEIGHTS: Final = (0.3, 0.2)

    def __init__(self) -> None:
        """Share the process's word vectors."""
        self._words = word_vectors()

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return self._words.dimensions

    def embed_memories(self, batch: Sequence[MemoryText], spent: Spent = unnoted) -> Vectors:  # noqa: ARG002 - free
        """Return vectors of memories, shape (n, dimensions); length 1, or 0 for a text without any known word."""
        places = _places(line for each in batch for line in (each.line, *each.context))
        alone = _summed(self._words, [_looked_up(line) for line in places], weighted=False)
        vectors: Vectors = alone[[places[memory.line] for memory in batch]]
        whole = np.ones(len(batch), np.float32)
        _add_turns(vectors, alone, places, [memory.context for memory in batch], self._CONTEXT_WEIGHTS, whole)
        return unit(vectors)

    def embed_query(self, text: str, idf: Mapping[str, float], spent: Spent = unnoted) -> Vectors:  # noqa: ARG002
        """Return the unit sum of the query's content words, each by its rarity; 1 for a word that `idf` lacks."""
        content = _looked_up(text)
        weights = np.array([idf.get(word, 1.0) for word in content], dtype=np.float32)
        return unit(weights @ self._words.vectors(content))


def _places(texts: Iterable[str]) -> dict[str, int]:
    """Return the distinct texts, each with its place among them."""
    return {text: place for place, text in enumerate(dict.fromkeys(texts))}


def _add_turns(
    vectors: Vectors,
    alone: Vectors,
    places: Mapping[str, int],
    turns: Sequence[Sequence[str]],
    weights: Sequence[float],
    openness: Vectors,
) -> None:
    """Add to each memory's vector the vectors of turns beside it, in place.

    Args:
        vectors: The memories' own, shape (n, dimensions).
        alone: Vectors of lines, shape (lines, dimensions).
        places: The row of each line in them.
        turns: The lines beside each memory, the nearest first.
        weights: Weight of the nearest turn, and of the next.
        openness: Share of these weights that a memory takes, shape (n,).
    """
    for turn, weight in enumerate(weights):
        here = [n for n, lines in enumerate(turns) if turn < len(lines)]
        there = [places[turns[n][turn]] for n in here]
        vectors[here] += np.float32(weight) * openness[here, None] * alone[there]


def _looked_up(text: str) -> list[str]:
    """Return the words that a text is looked up by: its content words, or else its signs (emoji)."""
    return content_words(text) or text.split()


def _summed(known: WordVectors, texts: Sequence[Sequence[str]], *, weighted: bool) -> Vectors:
    """Return the unit sum of each text's word vectors, shape (n, dimensions), by general rarity where `weighted`."""
    rows = _places(word for text in texts for word in text)
    vectors = known.vectors(list(rows))
    if weighted:
        vectors *= known.rarity(list(rows)).astype(np.float32)[:, None]
    sums = np.zeros((len(texts), known.dimensions), dtype=np.float32)
    for part in _slices(texts):
        flat = [rows[word] for n in part for word in texts[n]]
        ends = np.cumsum([len(texts[n]) for n in part])
        sums[part] = np.add.reduceat(vectors[flat], np.concatenate(([0], ends[:-1])), axis=0)
    return unit(sums)


def _slices(texts: Sequence[Sequence[str]]) -> Iterator[list[int]]:
    """Yield places of the texts that have words, in slices of about `_SLICE_WORDS` words."""
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


def _load() -> tuple[Vectors, Any]:
    """Return the word matrix, shape (tokens, dimensions), and the tokenizer, from the installed package; offline."""
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
