"""How well texts serve a query, by a provider's chat model: one call for all of them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from app.clients.llm.answers import Spent, unnoted
from app.clients.llm.provider import Patience, Provider
from app.clients.llm.resilience import ProviderFailed, Reason
from app.domain.salience import scoring
from app.domain.search import reranking
from app.errors import Misconfigured
from app.settings import Settings


class LlmReranker:
    """A chat model that scores texts by a query, 0 to 1; may be used by many threads.

    Args:
        provider: Who is asked.
        model: Name of the model there.
        patience: How long it may take; somebody waits for it.
        random_bytes: Gives so many random bytes, for the marks of the blocks.
    """

    def __init__(
        self,
        provider: Provider,
        model: str,
        patience: Patience,
        *,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._provider = provider
        self._patience = patience
        self._random_bytes = random_bytes
        self.model = model
        self.priced_as = model

    def close(self) -> None:
        """Close the provider's connections; it can't be used afterwards."""
        self._provider.close()

    def scores(self, query: str, texts: Sequence[str], spent: Spent = unnoted) -> list[float]:
        """How well each text serves the query, 0 to 1.

        Raises:
            ProviderFailed: There was no answer in time, or none that makes sense.
        """
        mark = scoring.delimiter(self._random_bytes(scoring.DELIMITER_BYTES))
        reply = self._provider.chat(
            self.model,
            reranking.messages(query, texts, mark),
            schema=reranking.ANSWER_SCHEMA,
            tokens_max=reranking.answer_tokens_max(len(texts)),
            patience=self._patience,
        )
        spent(reply.usage)
        if reply.problem is not None:
            raise ProviderFailed(reply.problem)
        try:
            return reranking.read(reply.content, len(texts))
        except scoring.Unusable as unusable:
            detail = str(unusable)
        raise ProviderFailed(Reason.GARBAGE, detail)


def from_settings(settings: Settings) -> LlmReranker:
    """The reranker that the settings name, with a provider of its own.

    Raises:
        Misconfigured: They name no provider, or one that can't be.
    """
    if not settings.has_provider:
        raise Misconfigured("EBBING_RERANKER=llm needs a provider: set EBBING_OPENAI_API_KEY or EBBING_OPENAI_BASE_URL")
    return LlmReranker(
        Provider.from_settings(settings), settings.rerank_model, Patience(settings.rerank_timeout_seconds)
    )
