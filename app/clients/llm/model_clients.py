"""The process's clients of language models and rerankers, created on first use and closed together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING

from app.clients.llm import provider_health
from app.clients.llm.provider_health import Target
from app.clients.llm.reranker import Reranker, load_reranker
from app.clients.llm.resilience import Breaker
from app.settings import settings

if TYPE_CHECKING:
    from app.clients.llm.chat_model import ChatModel
    from app.clients.llm.salience_scorer import Scorer


class ModelClients:
    """Clients that reuse their connections and circuit breakers between calls; each has its own provider.

    The package `openai` is imported with the first client that needs it, because it takes half a second and 40 MB.

    Raises:
        Misconfigured: The settings of the requested client are invalid.
    """

    @cached_property
    def salience_scorer(self) -> Scorer:
        """Client that rates memories."""
        from app.clients.llm.salience_scorer import Scorer  # noqa: PLC0415 - see the class

        config = settings()
        return Scorer(
            _chat_model("score", config.salience_model),
            batch_tokens=config.score_batch_tokens,
            batch_memories=config.score_batch_memories,
        )

    @cached_property
    def summariser(self) -> ChatModel:
        """Client that writes summaries."""
        return _chat_model("summarise", settings().summarising_model)

    @cached_property
    def contradiction_detector(self) -> ChatModel:
        """Client that detects contradictions between new memories and earlier ones."""
        return _chat_model("contradict", settings().salience_model)

    @cached_property
    def question_writer(self) -> ChatModel:
        """Client that writes the questions of self-tests."""
        return _chat_model("self_test", settings().salience_model)

    @cached_property
    def reranker(self) -> Reranker | None:
        """Client that scores search results; None if no reranker is configured."""
        return load_reranker(settings())

    @cached_property
    def rerank_breaker(self) -> Breaker:
        """Circuit breaker of the reranker."""
        return Breaker(settings().llm_breaker_failures, settings().llm_breaker_seconds)

    @cached_property
    def rerank_pool(self) -> ThreadPoolExecutor:
        """Threads that call the reranker, so that a search can stop waiting at its timeout."""
        return ThreadPoolExecutor(settings().llm_concurrency, thread_name_prefix="rerank")

    def close(self) -> None:
        """Close and remove all clients; the next use of a client creates a new one."""
        clients = vars(self).copy()
        vars(self).clear()
        for client in clients.values():
            if hasattr(client, "close"):  # a plugin's reranker may have none
                client.close()


def _chat_model(use: str, model: str) -> ChatModel:
    from app.clients.llm.chat_model import ChatModel  # noqa: PLC0415 - see `ModelClients`

    config = settings()
    observe = provider_health.observer(Target(use, config.provider_address, model))
    return ChatModel.from_settings(config, model, config.llm_timeout_seconds, observe)


model_clients = ModelClients()
