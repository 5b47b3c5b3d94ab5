"""Define rerankers, models that read query and text together, and select the configured one."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from app.clients.llm.cross_encoder import load_cross_encoder
from app.clients.llm.responses import Spent, unnoted
from app.domain.search import reranking
from app.errors import Misconfigured
from app.settings import Settings

if TYPE_CHECKING:
    from app.clients.llm.chat_model import ChatModel

GROUP: Final = "ebbing.rerankers"
KINDS: Final = ("none", "llm", "cross-encoder")


class Reranker(Protocol):
    """A model that scores texts for a query; thread-safe."""

    @property
    def model(self) -> str:
        """Display name of the model."""

    @property
    def priced_as(self) -> str | None:
        """Name of the model in `EBBING_PRICES`; None if calls are free."""

    def scores(self, query: str, texts: Sequence[str], spent: Spent = unnoted) -> Sequence[float]:
        """Return the relevance of each text to the query: finite numbers on any scale, higher is better.

        Args:
            texts: At least two memories, each prefixed with its day and speaker if known.
            spent: Receives each call's cost.
        """


class LlmReranker:
    """A chat model that scores texts for a query, 0 to 1; thread-safe."""

    def __init__(self, chat: ChatModel) -> None:
        self._chat = chat
        self.model = self.priced_as = chat.model

    def close(self) -> None:
        """Close the provider's connections; the object is unusable afterwards."""
        self._chat.close()

    def scores(self, query: str, texts: Sequence[str], spent: Spent = unnoted) -> list[float]:
        """Return the relevance of each text to the query, 0 to 1.

        Raises:
            ProviderFailed: There was no response in time, or it was invalid.
        """
        return self._chat.ask(reranking.prompt(query, texts), spent)


def load_reranker(config: Settings) -> Reranker | None:
    """Load the configured reranker; None if none is configured.

    Raises:
        Misconfigured: The configured reranker can't be loaded; the message says what to do.
    """
    if config.reranker == "none":
        return None
    if config.reranker == "llm":
        if not config.has_provider:
            raise Misconfigured(
                "EBBING_RERANKER=llm needs a provider: set EBBING_OPENAI_API_KEY or EBBING_OPENAI_BASE_URL"
            )
        from app.clients.llm.chat_model import ChatModel  # noqa: PLC0415 - saves the other rerankers 0.5 s and 40 MB

        return LlmReranker(ChatModel.from_settings(config, config.rerank_model, config.rerank_timeout_seconds))
    if config.reranker == "cross-encoder":
        return load_cross_encoder(config.rerank_model, config.embedding_threads)
    return _of_package(config.reranker)


def _of_package(name: str) -> Reranker:
    """Load a plugin's reranker from its entry point; if that is a class or a function, call it."""
    entries = {entry.name: entry for entry in metadata.entry_points(group=GROUP)}
    if name not in entries:
        known = ", ".join([*KINDS, *sorted(entries)])
        raise Misconfigured(f"EBBING_RERANKER={name} isn't an installed reranker; available: {known}")
    try:
        target: Any = entries[name].load()
        reranker = target() if callable(target) else target
    except Exception as error:
        raise Misconfigured(f"the reranker {name!r} ({entries[name].value}) can't be loaded: {error!r}") from error
    if not (isinstance(getattr(reranker, "model", None), str) and callable(getattr(reranker, "scores", None))):
        raise Misconfigured(f"the reranker {name!r} ({entries[name].value}) needs a `model` and `scores(query, texts)`")
    if not isinstance(getattr(reranker, "priced_as", 0), str | None):
        raise Misconfigured(f"the reranker {name!r} ({entries[name].value}) needs `priced_as`, a name or None")
    return cast("Reranker", reranker)
