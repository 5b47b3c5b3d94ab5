"""The bundled embedder: static word vectors, looked up offline without running a model.

The word vectors are those of wordllama. A memory's vector is composed from them by one of two methods: the current one,
or the previous one, which serves older tenants until `ebbing reembed` has migrated them.
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

from app.clients.embedding.word_table import WordTable, index_distinct, run_starts
from app.clients.llm.responses import Spent, unnoted
from app.domain.recall.word_kinship import CommonWordMoments
from app.domain.text.embedding_input import NO_LENGTH, SHORT_WORDS, MemoryText, normalise_rows
from app.domain.text.words import content_words, split_words

Vectors = NDArray[np.float32]

BEFORE_WEIGHTS: Final = (0.2, 0.12)
"""Weights of the vectors of the previous turn and the turn before that in the vector of a short memory."""
AFTER_WEIGHTS: Final = (0.2, 0.12)
"""Weights of the vectors of the next turn and the turn after that in the vector of a short memory."""
SENTENCE_WEIGHT: Final = 0.5
"""Weight of the plain mean of all words, including stop words, in a query's vector."""
RARITY_RANGE: Final = (0.3, 4.5)
"""Bounds of a word's general rarity; a word of several tokens has the upper bound."""
COMMON_TOKEN: Final = 300
"""Token id with a general rarity of 0 before the bounds apply; ids are ordered by frequency, larger ones are rarer."""

_COMMON_WORDS = 8_000
_WHOLE_WORD = re.compile("\u2581[a-z]{2,}")
"""Matches a token that is a whole word rather than a piece of one."""
_SPELLINGS = 100_000
"""Maximum number of words whose tokens are cached; beyond it, the cache is cleared."""
_SLICE_WORDS = 4_096
"""Number of word vectors that are summed at a time: 4 MiB at 256 dimensions."""
_SLICE_SPELLINGS = 1_024
"""Number of words whose tokens' vectors are averaged at a time, also to limit memory."""


class WordVectors:
    """Vectors of words, each the mean of the vectors of the word's tokens; thread-safe."""

    def __init__(self) -> None:
        """Load the vectors, in about 0.2 s and 60 MB."""
        self._matrix, self._tokenizer = _load()
        self._table = WordTable(self._encode)
        self._measured: tuple[WordTable, Vectors] | None = None

    @property
    def dimensions(self) -> int:
        """Dimensions of a vector."""
        return int(self._matrix.shape[1])

    @cached_property
    def usual(self) -> CommonWordMoments:
        """Moments of the vectors of the common words: the first `_COMMON_WORDS` whole lower-case words.

        The vocabulary is ordered by frequency. Only the moments are stored, half a MiB at 256 dimensions.
        """
        return CommonWordMoments.from_vectors(normalise_rows(self._rows(list(self._common_words().values()))))

    def nearest(self, spellings: Sequence[str], least: float, most: int) -> dict[str, list[str]]:
        """Return the nearest common words of each common word, nearest first, without the word itself.

        Words that aren't common are omitted because they consist of pieces, whose neighbours are pieces too.

        Args:
            least: Minimum cosine.
            most: Maximum number of nearest words per word.
        """
        common = self._common_words()
        names = list(common)
        spellings = [word for word in spellings if word in common]
        cosines = self.unit_vectors(spellings) @ normalise_rows(self._rows(list(common.values()))).T
        best = np.argsort(-cosines, axis=1, kind="stable")[:, : most + 1]
        return {
            word: [names[n] for n in best[row] if cosines[row, n] >= least and names[n] != word][:most]
            for row, word in enumerate(spellings)
        }

    def _common_words(self) -> dict[str, int]:
        """Return the token ids of the first `_COMMON_WORDS` whole lower-case words, by spelling."""
        tokens = sorted(self._tokenizer.get_vocab().items(), key=itemgetter(1))
        whole_words = [(token[1:], number) for token, number in tokens if _WHOLE_WORD.fullmatch(token)]
        return dict(whole_words[:_COMMON_WORDS])

    def vectors(self, spellings: Sequence[str]) -> Vectors:
        """Return each word's vector, shape (n, dimensions); zero for a word without tokens."""
        return self._token_means(*self._tokens_of(spellings))

    def unit_vectors(self, spellings: Sequence[str]) -> Vectors:
        """Return each word's unit vector, shape (n, dimensions); zero for an unknown word."""
        return normalise_rows(self.vectors(spellings))

    def rarity(self, spellings: Sequence[str]) -> NDArray[np.float64]:
        """Return each word's general rarity, 0.3 to 4.5, shape (n,); 1 for a word without tokens."""
        least, most = RARITY_RANGE
        tokens, sizes = self._tokens_of(spellings)
        rarities = np.where(sizes > 0, most, 1.0)
        single = np.maximum(tokens[np.repeat(sizes == 1, sizes)], 1)
        rarities[sizes == 1] = np.clip(np.log(single / COMMON_TOKEN), least, most)
        return rarities

    def closest(self, asked: Sequence[str], texts: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        """Return, for each text, the largest cosine of each query word to any word of the text, at least 0.

        Args:
            asked: Words of a query.
            texts: Words of each text; may be empty.

        Returns:
            Shape (len(texts), len(asked)).
        """
        cosines_max = np.zeros((len(texts), len(asked)))
        sizes = np.fromiter(map(len, texts), np.intp, len(texts))
        nonempty = np.flatnonzero(sizes)
        if nonempty.size and asked:
            table = self._word_table()
            rows = table.rows(list(chain.from_iterable(texts)))
            distinct, places = index_distinct(rows, len(table))
            cosines = self._cosines(table, distinct, asked)
            cosines_max[nonempty] = np.maximum.reduceat(cosines[places], run_starts(sizes[nonempty]), axis=0)
        return np.maximum(cosines_max, 0.0, out=cosines_max)

    def _cosines(self, table: WordTable, rows: NDArray[np.intp], asked: Sequence[str]) -> Vectors:
        """Return the cosine of each word with each query word, shape (words, asked); 0 for a word without tokens.

        A token shared by several words is multiplied with the query only once: a word's product is the mean of its
        tokens' products.
        """
        tokens, sizes = table.tokens(rows)
        distinct, places = index_distinct(tokens, len(self._matrix))
        vectors = self._rows(distinct)
        products = _means((vectors @ self.unit_vectors(asked).T)[places], sizes)
        lengths = self._lengths(table, rows)[:, None]
        return np.divide(products, lengths, out=np.zeros_like(products), where=lengths > NO_LENGTH)

    def _lengths(self, table: WordTable, rows: NDArray[np.intp]) -> Vectors:
        """Return the norm of each word's vector, shape (n,); norms are computed once per word."""
        cached = self._measured
        if cached is None or cached[0] is not table or len(cached[1]) < len(table):
            first = len(cached[1]) if cached is not None and cached[0] is table else 0
            tokens, sizes = table.tokens(np.arange(first, len(table)))
            fresh = np.linalg.norm(self._token_means(tokens, sizes), axis=1)
            cached = table, np.concatenate((cached[1][:first], fresh)) if cached is not None and first else fresh
            self._measured = cached
        return cached[1][rows]

    def _rows(self, tokens: NDArray[np.intp] | list[int]) -> Vectors:
        """Return the vectors of tokens, shape (n, dimensions)."""
        return np.asarray(self._matrix[tokens], np.float32)

    def _token_means(self, tokens: NDArray[np.intp], sizes: NDArray[np.intp]) -> Vectors:
        """Return the mean of each run of tokens' vectors, shape (runs, dimensions); zero for an empty run."""
        means = np.empty((len(sizes), self.dimensions), np.float32)
        starts = np.concatenate(([0], np.cumsum(sizes)))
        for first in range(0, len(sizes), _SLICE_SPELLINGS):
            part = sizes[first : first + _SLICE_SPELLINGS]
            part_tokens = tokens[starts[first] : starts[first + len(part)]]
            means[first : first + len(part)] = _means(self._rows(part_tokens), part)
        return means

    def _tokens_of(self, spellings: Sequence[str]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        table = self._word_table()
        return table.tokens(table.rows(spellings))

    def _word_table(self) -> WordTable:
        """Return the table of words looked up so far; replace it by an empty one if it has grown too large."""
        if len(self._table) > _SPELLINGS:
            self._table = WordTable(self._encode)
        return self._table

    def _encode(self, words: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(words, add_special_tokens=False)]


def _means(rows: Vectors, sizes: NDArray[np.intp]) -> Vectors:
    """Return the mean of each run of rows, shape (runs, columns); zero for an empty run."""
    means = np.zeros((len(sizes), rows.shape[1]), np.float32)
    nonempty = np.flatnonzero(sizes)
    if nonempty.size:
        sums = np.add.reduceat(rows, run_starts(sizes[nonempty]), axis=0)
        means[nonempty] = sums / sizes[nonempty, None].astype(np.float32)
    return means


@lru_cache(maxsize=1)
def word_vectors() -> WordVectors:
    """Return the word vectors, loaded on first use."""
    return WordVectors()


class StaticEmbedder:
    """Embedder that composes the vector of a memory from its words' vectors, weighted by their general rarity.

    A memory's vector also includes a share of the vectors of two turns before it and two after it. The share is smaller
    for a memory of more than `SHORT_WORDS` content words, because a short text is less informative by itself. A text
    without any known word (such as an empty text) gets the zero vector, whose cosine to every vector is 0.
    """

    normalised = True
    priced_as = None
    model = "wordllama-l2-supercat+turns"
    """Name of the weights and of the composition method."""

    def __init__(self) -> None:
        """Share the process's word vectors."""
        self._words = word_vectors()

    @property
    def dimensions(self) -> int:
        """Dimensions of a vector."""
        return self._words.dimensions

    def embed_memories(self, batch: Sequence[MemoryText], spent: Spent = unnoted) -> Vectors:  # noqa: ARG002 - free
        """Return vectors of memories, shape (n, dimensions); norm 1, or 0 for a text without any known word."""
        lines_by_memory = [memory.line for memory in batch]
        places = _places(
            line
            for spoken, each in zip(lines_by_memory, batch, strict=True)
            for line in (spoken, *each.context, *each.after)
        )
        looked_up = [_content_words_or_signs(line) for line in places]
        alone = _sum_words(self._words, [list(dict.fromkeys(text)) for text in looked_up], weighted=True)
        lines = [places[line] for line in lines_by_memory]
        vectors: Vectors = alone[lines]
        openness = np.array([min(1.0, SHORT_WORDS / max(len(looked_up[line]), 1)) for line in lines], np.float32)
        _add_turns(vectors, alone, places, [memory.context for memory in batch], BEFORE_WEIGHTS, openness)
        _add_turns(vectors, alone, places, [memory.after for memory in batch], AFTER_WEIGHTS, openness)
        return normalise_rows(vectors)

    def embed_query(self, text: str, idf: Mapping[str, float], spent: Spent = unnoted) -> Vectors:  # noqa: ARG002
        """Return a query vector: content words weighted by `idf` and general rarity, plus the plain mean of all words.

        A word missing from `idf` has an idf of 1.
        """
        content = list(dict.fromkeys(_content_words_or_signs(text)))
        weights = np.array([idf.get(word, 1.0) for word in content]) * (1 + self._words.rarity(content))
        by_rarity = normalise_rows(weights.astype(np.float32) @ self._words.vectors(content))
        plain = normalise_rows(self._words.vectors(split_words(text)).sum(axis=0))
        return normalise_rows(by_rarity + np.float32(SENTENCE_WEIGHT) * plain)


class FormerStaticEmbedder(StaticEmbedder):
    """Embedder with the previous composition: plain means of content words, with only the two previous turns.

    Until they are migrated, it serves the tenants whose vectors it created.
    """

    model = "wordllama-l2-supercat+context"

    _CONTEXT_WEIGHTS: Final = (0.3, 0.2)

    def embed_memories(self, batch: Sequence[MemoryText], spent: Spent = unnoted) -> Vectors:  # noqa: ARG002 - free
        """Return vectors of memories, shape (n, dimensions); norm 1, or 0 for a text without any known word."""
        places = _places(line for each in batch for line in (each.line, *each.context))
        alone = _sum_words(self._words, [_content_words_or_signs(line) for line in places], weighted=False)
        vectors: Vectors = alone[[places[memory.line] for memory in batch]]
        whole = np.ones(len(batch), np.float32)
        _add_turns(vectors, alone, places, [memory.context for memory in batch], self._CONTEXT_WEIGHTS, whole)
        return normalise_rows(vectors)

    def embed_query(self, text: str, idf: Mapping[str, float], spent: Spent = unnoted) -> Vectors:  # noqa: ARG002
        """Return the normalised sum of the query's content words, weighted by `idf`; a missing word has an idf of 1."""
        content = _content_words_or_signs(text)
        weights = np.array([idf.get(word, 1.0) for word in content], dtype=np.float32)
        return normalise_rows(weights @ self._words.vectors(content))


def _places(texts: Iterable[str]) -> dict[str, int]:
    """Map each distinct text to its index."""
    return {text: place for place, text in enumerate(dict.fromkeys(texts))}


def _add_turns(
    vectors: Vectors,
    alone: Vectors,
    places: Mapping[str, int],
    turns: Sequence[Sequence[str]],
    weights: Sequence[float],
    openness: Vectors,
) -> None:
    """Add the vectors of neighbouring turns to each memory's vector, in place.

    Args:
        vectors: The memories' own vectors, shape (n, dimensions).
        alone: Vectors of lines, shape (lines, dimensions).
        places: Row of each line in `alone`.
        turns: Neighbouring lines of each memory, nearest first.
        weights: Weights of the nearest and of the second nearest turn.
        openness: Factor on the weights for each memory, shape (n,).
    """
    for turn, weight in enumerate(weights):
        rows = [n for n, lines in enumerate(turns) if turn < len(lines)]
        turn_rows = [places[turns[n][turn]] for n in rows]
        vectors[rows] += np.float32(weight) * openness[rows, None] * alone[turn_rows]


def _content_words_or_signs(text: str) -> list[str]:
    """Return a text's content words; if there are none, its symbols (emoji)."""
    return content_words(text) or text.split()


def _sum_words(known: WordVectors, texts: Sequence[Sequence[str]], *, weighted: bool) -> Vectors:
    """Return the normalised sum of each text's word vectors, shape (n, dimensions).

    Args:
        texts: Words of each text.
        weighted: Weight the words by their general rarity.
    """
    rows = _places(word for text in texts for word in text)
    vectors = known.vectors(list(rows))
    if weighted:
        vectors *= known.rarity(list(rows)).astype(np.float32)[:, None]
    sums = np.zeros((len(texts), known.dimensions), dtype=np.float32)
    for part in _slices(texts):
        flat = [rows[word] for n in part for word in texts[n]]
        ends = np.cumsum([len(texts[n]) for n in part])
        sums[part] = np.add.reduceat(vectors[flat], np.concatenate(([0], ends[:-1])), axis=0)
    return normalise_rows(sums)


def _slices(texts: Sequence[Sequence[str]]) -> Iterator[list[int]]:
    """Yield indexes of the non-empty texts, in slices of about `_SLICE_WORDS` words."""
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


def _load() -> tuple[NDArray[np.float16], Any]:
    """Return the word matrix, shape (tokens, dimensions), and the tokenizer from the installed package, offline.

    The package's file has half-precision numbers, so the matrix loses nothing and takes 16 MB instead of 32.
    """
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    import wordllama  # noqa: PLC0415 - heavy; its logging setup is undone below

    for handler in [handler for handler in root.handlers if handler not in handlers]:
        root.removeHandler(handler)
    root.setLevel(level)
    folder = Path(wordllama.__file__).parent
    model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    model.tokenizer.no_padding()
    return model.embedding.astype(np.float16), model.tokenizer
