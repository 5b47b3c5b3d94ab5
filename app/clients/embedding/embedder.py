"""Text to vectors: the protocol of an embedder, and the embedder that a setting or a space names."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Protocol

from app.clients.embedding.static_embedder import FormerStaticEmbedder, StaticEmbedder, Vectors
from app.clients.llm.answers import Spent, unnoted
from app.domain.text.embedding import PASSAGE_VERSION, MemoryText
from app.errors import Misconfigured
from app.settings import settings

GONE_SECONDS: Final = 60.0
"""How long an embedder that couldn't be had isn't looked for again."""


class NoEmbedder(Exception):
    """The embedder of a space can't be had in this process; the message says why, and holds names alone."""


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


@lru_cache(maxsize=1)
def embedder() -> Embedder:
    """The embedder that the settings name, loaded on first use.

    Raises:
        Misconfigured: They name one that can't be.
    """
    config = settings()
    if config.embedder == "local":
        return StaticEmbedder()
    if config.embedder == "openai":
        from app.clients.embedding import openai_embedder  # noqa: PLC0415 - half a second and 40 MB that the bundled one spares

        return openai_embedder.from_settings(config)
    from app.clients.embedding import local_models  # noqa: PLC0415 - only where it is asked for

    return local_models.from_settings(config)


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
        return FormerStaticEmbedder() if model == FormerStaticEmbedder.model else StaticEmbedder()
    name, _, version = model.rpartition("+")
    if version != PASSAGE_VERSION:
        raise NoEmbedder(f"this version of Ebbing makes {PASSAGE_VERSION} of a memory")
    if kind == "openai":
        from app.clients.embedding import openai_embedder  # noqa: PLC0415 - as above

        if not settings().has_provider:
            raise NoEmbedder("no provider is given")
        return openai_embedder.of_space(settings(), name, dimensions)
    if kind in {"fastembed", "sentence-transformers"}:
        from app.clients.embedding import local_models  # noqa: PLC0415 - as above

        return local_models.of_space(settings(), kind, name)
    raise NoEmbedder(f"{kind} is no embedder of this version")
