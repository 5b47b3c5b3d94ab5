"""The process's clients of language models and rerankers, created on first use and closed together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING

from app.clients.llm.reranker import Reranker, load_reranker
from app.clients.llm.resilience import Breaker
from app.settings import settings

if TYPE_CHECKING:
    from app.clients.llm.chat_model import ChatModel
    from app.clients.llm.salience_scorer import Scorer


class ModelClients:
    """Clients whose connections and circuit breakers outlast a call; each has its own provider.

    `openai` is imported with the first client that needs it: it takes half a second and 40 MB.

    Raises:
        Misconfigured: By each client, if the settings are invalid for it.
    """

    @cached_property
    def salience_scorer(self) -> Scorer:
        """Rates memories."""
        from app.clients.llm.salience_scorer import Scorer  # noqa: PLC0415 - see the class

        config = settings()
        return Scorer(
            _chat_model(config.salience_model),
            batch_tokens=config.score_batch_tokens,
            batch_memories=config.score_batch_memories,
        )

    @cached_property
    def summariser(self) -> ChatModel:
        """Writes summaries."""
        return _chat_model(settings().summarising_model)

    @cached_property
    def contradiction_detector(self) -> ChatModel:
        """Compares new memories with earlier ones."""
        return _chat_model(settings().salience_model)

    @cached_property
    def question_writer(self) -> ChatModel:
        """Writes the questions of self-tests."""
        return _chat_model(settings().salience_model)

    @cached_property
    def reranker(self) -> Reranker | None:
        """Scores search results; None if none is configured."""
        return load_reranker(settings())

    @cached_property
    def rerank_breaker(self) -> Breaker:
        """Stops calls of a failing reranker."""
        return Breaker(settings().llm_breaker_failures, settings().llm_breaker_seconds)

    @cached_property
    def rerank_pool(self) -> ThreadPoolExecutor:
        """Threads that wait for the reranker, so that a search doesn't have to."""
        return ThreadPoolExecutor(settings().llm_concurrency, thread_name_prefix="rerank")

    def close(self) -> None:
        """Close and forget all clients; their next use creates new ones."""
        clients = vars(self).copy()
        vars(self).clear()
        for client in clients.values():
            if hasattr(client, "close"):  # optional for the reranker of a package
                client.close()


def _chat_model(model: str) -> ChatModel:
    from app.clients.llm.chat_model import ChatModel  # noqa: PLC0415 - see `ModelClients`

    return ChatModel.from_settings(settings(), model, settings().llm_timeout_seconds)


model_clients = ModelClients()
