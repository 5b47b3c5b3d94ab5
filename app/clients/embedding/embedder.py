"""Define the embedder protocol, and select the embedder of a setting or an embedding space."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Protocol

from app.clients.embedding.static_embedder import FormerStaticEmbedder, StaticEmbedder, Vectors
from app.clients.llm.responses import Spent, unnoted
from app.domain.text.embedding_input import PASSAGE_VERSION, MemoryText
from app.errors import Misconfigured
from app.settings import settings

GONE_SECONDS: Final = 60.0
"""Time before an unavailable embedder is tried again."""

USUAL_COSINES: Final = {StaticEmbedder.model: 0.03}
"""Median cosine of a question with unrelated memories, by model; measured on four chats with 513 messages."""


class EmbedderUnavailable(Exception):
    """The embedder of a space is unavailable in this process; the message gives the reason and only contains names."""


class Embedder(Protocol):
    """A model that maps texts to vectors of one embedding space."""

    @property
    def model(self) -> str:
        """Name of the model, including everything that makes its vectors incomparable to others."""

    @property
    def dimensions(self) -> int:
        """Dimensions of a vector."""

    @property
    def normalised(self) -> bool:
        """True if every vector has norm 1 (or 0, for a text without meaning to the model)."""

    @property
    def priced_as(self) -> str | None:
        """Name of the model in `EBBING_PRICES`; None if calls are free."""

    def embed_memories(self, batch: Sequence[MemoryText], spent: Spent = unnoted) -> Vectors:
        """Return the vectors of memories, shape (n, dimensions), float32, finite.

        Args:
            spent: Receives each call's cost.
        """

    def embed_query(self, text: str, idf: Mapping[str, float], spent: Spent = unnoted) -> Vectors:
        """Return the vector of a query, shape (dimensions,), float32, finite.

        Args:
            idf: Rarity of the query's content words among the tenant's memories, 0 or more; unused by models that weigh
                words themselves.
            spent: Receives each call's cost.
        """


@lru_cache(maxsize=1)
def embedder() -> Embedder:
    """Return the configured embedder, loaded on first use.

    Raises:
        Misconfigured: The configured embedder can't be loaded.
    """
    config = settings()
    if config.embedder == "local":
        return StaticEmbedder()
    if config.embedder == "openai":
        from app.clients.embedding import openai_embedder  # noqa: PLC0415 - takes 0.5 s and 40 MB

        return openai_embedder.from_settings(config)
    from app.clients.embedding import local_models  # noqa: PLC0415 - only if configured

    return local_models.from_settings(config)


_lock = threading.Lock()
_others: dict[tuple[str, str, int], Embedder] = {}
_gone: dict[tuple[str, str, int], tuple[float, str]] = {}


def embedder_of(kind: str, model: str, dimensions: int) -> Embedder:
    """Return the embedder of a space, which may differ from the configured one; cached after loading.

    Args:
        kind: A value of the setting `EBBING_EMBEDDER`.
        model: The space's model, as in `Embedder.model`.
        dimensions: The space's dimensions.

    Raises:
        EmbedderUnavailable: The embedder is unavailable here, or its vectors have changed. It is not retried for
            `GONE_SECONDS`.
    """
    key = (kind, model, dimensions)
    with _lock:  # concurrent callers load a model only once
        failed_at, reason = _gone.get(key, (-GONE_SECONDS, ""))
        if key not in _others and time.monotonic() - failed_at < GONE_SECONDS:
            raise EmbedderUnavailable(reason)
        try:
            return _others.setdefault(key, _others.get(key) or _open(*key))
        except (EmbedderUnavailable, Misconfigured) as error:
            _gone[key] = (time.monotonic(), str(error))
            raise EmbedderUnavailable(str(error)) from error


def _open(kind: str, model: str, dimensions: int) -> Embedder:
    opened = _build(kind, model, dimensions)
    if (opened.model, opened.dimensions) != (model, dimensions):
        raise EmbedderUnavailable(f"the model is now {opened.model} with {opened.dimensions} dimensions")
    return opened


def _build(kind: str, model: str, dimensions: int) -> Embedder:
    if kind == "local":
        return FormerStaticEmbedder() if model == FormerStaticEmbedder.model else StaticEmbedder()
    name, _, version = model.rpartition("+")
    if version != PASSAGE_VERSION:
        raise EmbedderUnavailable(
            f"its vectors use another text format than this version of Ebbing ({PASSAGE_VERSION})"
        )
    if kind == "openai":
        from app.clients.embedding import openai_embedder  # noqa: PLC0415 - as above

        if not settings().has_provider:
            raise EmbedderUnavailable("no provider is configured")
        return openai_embedder.open_embedder(settings(), name, dimensions)
    if kind in {"fastembed", "sentence-transformers"}:
        from app.clients.embedding import local_models  # noqa: PLC0415 - as above

        return local_models.open_model(settings(), kind, name)
    raise EmbedderUnavailable(f"{kind} isn't an embedder of this version")
