"""Send a prompt to a provider's chat model and return its validated answer."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TypeVar

from app.clients.llm import provider_health
from app.clients.llm.provider import Patience, Provider
from app.clients.llm.provider_health import Observer
from app.clients.llm.resilience import ProviderFailed, Reason
from app.clients.llm.responses import Spent, unnoted
from app.domain.prompts import DELIMITER_BYTES, Prompt, Unusable, delimiter
from app.settings import Settings

T = TypeVar("T")


class ChatModel:
    """A chat model with the connections and the breaker of its provider; thread-safe.

    Args:
        model: The model's name at the provider.
        patience: Time limits of a response.
        random_bytes: Source of random bytes for delimiters.
        observe: Receives the outcome of each call.
    """

    def __init__(
        self,
        provider: Provider,
        model: str,
        patience: Patience,
        *,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
        observe: Observer = provider_health.ignore,
    ) -> None:
        self._provider = provider
        self._patience = patience
        self._random_bytes = random_bytes
        self._observe = observe
        self.model = model

    @classmethod
    def from_settings(
        cls, settings: Settings, model: str, timeout_seconds: float, observe: Observer = provider_health.ignore
    ) -> ChatModel:
        """Create a model from the settings, with its own provider, so that each purpose has a breaker of its own.

        The model makes a single attempt per prompt: each caller has a fallback, or rows from which to retry later.

        Raises:
            Misconfigured: The settings name an invalid provider.
        """
        return cls(Provider.from_settings(settings), model, Patience(timeout_seconds), observe=observe)

    @property
    def is_resting(self) -> bool:
        """True while the breaker is open."""
        return self._provider.health()["chat"] == "open"

    @property
    def is_recovering(self) -> bool:
        """True if the next call is the probe that closes or reopens the breaker."""
        return self._provider.health()["chat"] == "half_open"

    def close(self) -> None:
        """Close the provider's connections; the object is unusable afterwards."""
        self._provider.close()

    def ask(self, prompt: Prompt[T], spent: Spent = unnoted) -> T:
        """Return the validated answer to a prompt.

        Args:
            spent: Receives the cost of the response, even of an unusable one.

        Raises:
            ProviderFailed: There was no response, or it was unusable; see `resilience.TREATMENTS` for the treatment.
        """
        try:
            answer = self._answer(prompt, spent)
        except ProviderFailed as failure:
            self._observe(failure, self._provider.open_seconds("chat"))
            raise
        self._observe(None, 0.0)
        return answer

    def _answer(self, prompt: Prompt[T], spent: Spent) -> T:
        mark = delimiter(self._random_bytes(DELIMITER_BYTES))
        reply = self._provider.chat(
            self.model,
            prompt.messages(mark),
            schema=prompt.schema,
            tokens_max=prompt.tokens_max,
            patience=self._patience,
        )
        spent(reply.usage)
        if reply.problem is not None:
            raise ProviderFailed(reply.problem, prompt.truncated if reply.problem is Reason.TRUNCATED else "")
        try:
            return prompt.read(reply.content, mark)
        except Unusable as unusable:
            detail = str(unusable)
        raise ProviderFailed(Reason.GARBAGE, detail)
