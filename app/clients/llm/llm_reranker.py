"""Score how well texts serve a query with a provider's chat model, in one call."""

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
    """A chat model that scores texts for a query, 0 to 1; thread-safe.

    Args:
        model: The model's name at the provider.
        patience: Timeout of a response; a caller is waiting for it.
        random_bytes: Source of random bytes for block markers.
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
        """Close the provider's connections; the object is unusable afterwards."""
        self._provider.close()

    def scores(self, query: str, texts: Sequence[str], spent: Spent = unnoted) -> list[float]:
        """Return how well each text serves the query, 0 to 1.

        Raises:
            ProviderFailed: There was no response in time, or it was invalid.
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
    """Create the reranker with its own provider from the settings.

    Raises:
        Misconfigured: The settings name no provider or an invalid one.
    """
    if not settings.has_provider:
        raise Misconfigured("EBBING_RERANKER=llm needs a provider: set EBBING_OPENAI_API_KEY or EBBING_OPENAI_BASE_URL")
    return LlmReranker(
        Provider.from_settings(settings), settings.rerank_model, Patience(settings.rerank_timeout_seconds)
    )
