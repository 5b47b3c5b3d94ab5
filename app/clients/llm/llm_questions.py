"""Generate questions about texts with a provider's chat model, in one call."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from app.clients.llm.answers import Spent, unnoted
from app.clients.llm.provider import Patience, Provider
from app.clients.llm.resilience import ProviderFailed, Reason
from app.domain.evaluation import questions
from app.domain.salience import scoring
from app.settings import Settings


class Questioner:
    """A chat model that generates a question about each text; thread-safe.

    Args:
        model: The model's name at the provider.
        patience: Timeout of a response.
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

    @classmethod
    def from_settings(cls, settings: Settings) -> Questioner:
        """Create a questioner with its own provider and the settings' salience model.

        It makes a single attempt because rule-based questions are the fallback.
        """
        provider = Provider.from_settings(settings)
        return cls(provider, settings.salience_model, Patience(settings.llm_timeout_seconds))

    def close(self) -> None:
        """Close the provider's connections; the object is unusable afterwards."""
        self._provider.close()

    def questions(self, texts: Sequence[str], spent: Spent = unnoted) -> list[str]:
        """Return one question about each text.

        Raises:
            ProviderFailed: There was no response in time, or it doesn't cover exactly these texts.
        """
        mark = scoring.delimiter(self._random_bytes(scoring.DELIMITER_BYTES))
        reply = self._provider.chat(
            self.model,
            questions.messages(texts, mark),
            schema=questions.ANSWER_SCHEMA,
            tokens_max=questions.answer_tokens_max(len(texts)),
            patience=self._patience,
        )
        spent(reply.usage)
        if reply.problem is not None:
            raise ProviderFailed(reply.problem)
        try:
            return questions.read(reply.content, len(texts))
        except scoring.Unusable as unusable:
            detail = str(unusable)
        raise ProviderFailed(Reason.GARBAGE, detail)
