"""Embed texts with a provider's embedding model."""

from __future__ import annotations

import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from app.clients.embedding.static_embedder import Vectors
from app.clients.llm import provider_health
from app.clients.llm.provider import Patience, Provider
from app.clients.llm.provider_health import Observer, Target
from app.clients.llm.resilience import ProviderFailed, Reason
from app.clients.llm.responses import Spent, Vector, unnoted
from app.domain.prompts import clip, split_batches, tokens
from app.domain.text.embedding_input import PASSAGE_VERSION, MemoryText, format_passage, normalise_rows
from app.settings import Settings

INPUT_MAX_BYTES: Final = 24_000
"""Truncation limit for a memory or query; most models accept 8,192 tokens, and a token may have three bytes."""
_CUTS = 3  # maximum number of times that a text is halved if it is too long for the model
_NORMS = (1e-6, 1e6)  # a response with a norm outside this range is rejected


class OpenAIEmbedder:
    """An embedding model behind OpenAI's protocol; thread-safe.

    A blank text isn't sent and gets the zero vector, whose cosine to every vector is 0.

    Args:
        model: The model's name at the provider.
        dimensions: Dimensions of a vector; None uses the model's own, determined by one call.
        patience: Time limits for memories.
        query_patience: Time limits for a query, for which a caller is waiting.
        batch_tokens: Maximum tokens per call.
        batch_memories: Maximum texts per call.
        asks_dimensions: Send the requested dimensions; some servers don't accept them.

    Attributes:
        observe: Receives the outcome of each call; by default, the outcome is ignored.
    """

    normalised = True

    def __init__(
        self,
        provider: Provider,
        model: str,
        dimensions: int | None,
        patience: Patience,
        *,
        query_patience: Patience | None = None,
        batch_tokens: int = 64_000,
        batch_memories: int = 256,
        asks_dimensions: bool = True,
    ) -> None:
        self._provider = provider
        self._name = model
        self._asked_dimensions = dimensions if asks_dimensions else None
        self._dimensions = dimensions
        self._patience = patience
        self._query_patience = query_patience or patience
        self._batch_tokens = batch_tokens
        self._batch_memories = batch_memories
        self.observe: Observer = provider_health.ignore

    @property
    def model(self) -> str:
        """Name of the model, followed by the version of the text format of memories (`PASSAGE_VERSION`)."""
        return f"{self._name}+{PASSAGE_VERSION}"

    @property
    def priced_as(self) -> str:
        """Name of the model at its provider."""
        return self._name

    @property
    def dimensions(self) -> int:
        """Dimensions of a vector.

        Raises:
            ProviderFailed: The dimensions had to be determined by a call, and the call failed.
        """
        if self._dimensions is None:
            self._dimensions = self._call(["dimensions"], self._query_patience, unnoted).shape[1]
        return self._dimensions

    def embed_memories(self, batch: Sequence[MemoryText], spent: Spent = unnoted) -> Vectors:
        """Return vectors of memories, shape (n, dimensions), float32; norm 1, or 0 for a blank text.

        Raises:
            ProviderFailed: A call failed. If the call was for a single memory, the memory's text may be the cause.
        """
        texts = [clip(format_passage(memory), INPUT_MAX_BYTES) for memory in batch]
        vectors = np.zeros((len(batch), self.dimensions), dtype=np.float32)
        for places in self._batches(texts):
            vectors[places] = self._cutting([texts[place] for place in places], spent)
        return vectors

    def embed_query(self, text: str, idf: Mapping[str, float], spent: Spent = unnoted) -> Vectors:  # noqa: ARG002
        """Return the vector of a query, shape (dimensions,), float32; norm 1, or 0 for a blank query.

        Raises:
            ProviderFailed: There was no usable response within the query's time limits.
        """
        if not text.strip():
            return np.zeros(self.dimensions, dtype=np.float32)
        vector: Vectors = self._call([clip(text, INPUT_MAX_BYTES)], self._query_patience, spent)[0]
        return vector

    def _batches(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Yield the indexes of the non-blank texts in batches that fit one call."""
        costs = [tokens(text) for text in texts]
        places = [place for place, cost in enumerate(costs) if cost]
        return split_batches(places, costs.__getitem__, self._batch_tokens, self._batch_memories)

    def _cutting(self, texts: Sequence[str], spent: Spent) -> Vectors:
        """Return the vectors of one batch; a single text that is too long for the model is halved until it fits."""
        for _ in range(_CUTS if len(texts) == 1 else 0):
            try:
                return self._call(texts, self._patience, spent)
            except ProviderFailed as failure:
                if failure.reason is not Reason.TOO_LARGE:
                    raise
            texts = [clip(texts[0], len(texts[0].encode()) // 2)]
        return self._call(texts, self._patience, spent)

    def _call(self, texts: Sequence[str], patience: Patience, spent: Spent) -> Vectors:
        """Return unit vectors of texts, in their order.

        Raises:
            ProviderFailed: The call failed; `GARBAGE` if the response doesn't contain one finite vector of the right
                size for each text.
        """
        try:
            vectors = self._answer(texts, patience, spent)
        except ProviderFailed as failure:
            self.observe(failure, self._provider.open_seconds("vectors"))
            raise
        self.observe(None, 0.0)
        return vectors

    def _answer(self, texts: Sequence[str], patience: Patience, spent: Spent) -> Vectors:
        received, usage = self._provider.vectors(
            self._name, texts, dimensions=self._asked_dimensions, patience=patience
        )
        spent(usage)
        if sorted(vector.index for vector in received) != list(range(len(texts))):
            raise ProviderFailed(Reason.GARBAGE, "wrong count")
        rows = [_numbers(vector) for vector in sorted(received, key=lambda vector: vector.index)]
        size = self._dimensions or rows[0].size
        if any(row.size != size for row in rows):
            raise ProviderFailed(Reason.GARBAGE, "wrong size")
        vectors = np.stack(rows)
        with np.errstate(over="ignore", invalid="ignore"):
            norms = np.linalg.norm(vectors, axis=1)
        if not ((norms > _NORMS[0]) & (norms < _NORMS[1])).all():  # false for NaN and infinity too
            raise ProviderFailed(Reason.GARBAGE, "invalid norm")
        return normalise_rows(vectors.astype(np.float32))


def from_settings(settings: Settings) -> OpenAIEmbedder:
    """Create the configured embedder with its own provider.

    Raises:
        Misconfigured: The settings name an invalid provider.
    """
    return open_embedder(settings, settings.embedder_model, settings.embedding_dimensions or None)


def open_embedder(settings: Settings, name: str, dimensions: int | None) -> OpenAIEmbedder:
    """Create an embedder for any model of the configured provider.

    It has its own connections and breaker, so that a model that the provider has dropped doesn't block the others.

    Args:
        name: The model's name at the provider.
        dimensions: Dimensions of a vector, requested unless `EBBING_EMBEDDING_DIMENSIONS` is 0;
            None for the model's own.

    Raises:
        Misconfigured: The settings name an invalid provider.
    """
    embedder = OpenAIEmbedder(
        Provider.from_settings(settings),
        name,
        dimensions,
        Patience(settings.llm_timeout_seconds, settings.llm_tries, settings.llm_wait_max_seconds),
        query_patience=Patience(settings.llm_query_timeout_seconds),
        batch_tokens=settings.embed_batch_tokens,
        batch_memories=settings.embed_batch_memories,
        asks_dimensions=settings.embedding_dimensions > 0,
    )
    embedder.observe = provider_health.observer(Target("embed", settings.provider_address, name))
    return embedder


def _numbers(vector: Vector) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Decode one vector, shape (size,); a server may return plain numbers although base64 was requested."""
    if isinstance(vector.embedding, list):
        return np.array(vector.embedding, dtype=np.float64)
    try:
        raw = binascii.a2b_base64(vector.embedding, strict_mode=True)
        return np.frombuffer(raw, dtype="<f4").astype(np.float64)
    except ValueError:  # includes binascii.Error
        detail = "not base64"
    raise ProviderFailed(Reason.GARBAGE, detail)
