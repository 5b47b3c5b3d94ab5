"""Which earlier memories new ones outdate, by a provider's chat model."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from app.clients.llm.answers import Spent
from app.clients.llm.provider import Patience, Provider
from app.clients.llm.resilience import ProviderFailed, Reason
from app.domain.consolidation import contradiction
from app.domain.consolidation.contradiction import Question
from app.domain.consolidation.supersession import Pair
from app.domain.salience import scoring
from app.settings import Settings


class Contradictor:
    """A chat model that compares memories; it tries once, since what it isn't asked about can wait.

    Args:
        provider: Who is asked.
        model: Name of the model there.
        patience: How long an answer may take.
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
    def from_settings(cls, settings: Settings) -> Contradictor:
        """The one that the settings name, with a provider of its own: the model that rates compares as well."""
        return cls(Provider.from_settings(settings), settings.salience_model, Patience(settings.llm_timeout_seconds))

    def close(self) -> None:
        """Close the provider's connections; it can't be used afterwards."""
        self._provider.close()

    def outdated(self, questions: Sequence[Question], spent: Spent) -> list[Pair]:
        """Which earlier memories of one batch are outdated by the new one beside them.

        Args:
            questions: One batch.
            spent: Is told what the call has cost, whatever becomes of its answer.

        Raises:
            ProviderFailed: There was no answer, or none that makes sense.
        """
        mark = scoring.delimiter(self._random_bytes(scoring.DELIMITER_BYTES))
        reply = self._provider.chat(
            self.model,
            contradiction.messages(questions, mark),
            schema=contradiction.ANSWER_SCHEMA,
            tokens_max=contradiction.answer_tokens_max(len(questions)),
            patience=self._patience,
        )
        spent(reply.usage)
        if reply.problem is not None:
            raise ProviderFailed(reply.problem)
        try:
            return contradiction.read(reply.content, questions, mark)
        except scoring.Unusable as unusable:
            detail = str(unusable)
        raise ProviderFailed(Reason.GARBAGE, detail)
