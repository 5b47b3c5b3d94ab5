"""Questions about texts, by a provider's chat model: one call for all of them."""

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
    """A chat model that makes a question about each text; may be used by many threads.

    Args:
        provider: Who is asked.
        model: Name of the model there.
        patience: How long it may take.
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

    @classmethod
    def from_settings(cls, settings: Settings) -> Questioner:
        """The questioner that the settings name, with a provider of its own; the model is that of salience.

        It tries once: a rule stands in.
        """
        provider = Provider.from_settings(settings)
        return cls(provider, settings.salience_model, Patience(settings.llm_timeout_seconds))

    def close(self) -> None:
        """Close the provider's connections; it can't be used afterwards."""
        self._provider.close()

    def questions(self, texts: Sequence[str], spent: Spent = unnoted) -> list[str]:
        """A question about each text, as the model gives it.

        Raises:
            ProviderFailed: There was no answer in time, or none that is about these texts.
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
