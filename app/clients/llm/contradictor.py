"""Ask a provider's chat model which earlier memories are outdated by new ones."""

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
    """A chat model that compares memories; it makes a single attempt because unanswered questions can wait.

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
    def from_settings(cls, settings: Settings) -> Contradictor:
        """Create a contradictor with its own provider and the settings' salience model."""
        return cls(Provider.from_settings(settings), settings.salience_model, Patience(settings.llm_timeout_seconds))

    def close(self) -> None:
        """Close the provider's connections; the object is unusable afterwards."""
        self._provider.close()

    def outdated(self, questions: Sequence[Question], spent: Spent) -> list[Pair]:
        """Return which earlier memories of one batch are outdated by the new memory they are paired with.

        Args:
            spent: Receives the cost of the call, even if its response is unusable.

        Raises:
            ProviderFailed: There was no response or an invalid one.
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
