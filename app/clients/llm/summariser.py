"""Summarise memories with a provider's chat model, and verify the summaries."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from app.clients.llm.answers import Spent, unnoted
from app.clients.llm.provider import Patience, Provider
from app.clients.llm.resilience import ProviderFailed, Reason
from app.domain.consolidation import checking, prompting
from app.domain.consolidation.parameters import Level
from app.domain.consolidation.records import Form, Source, Summary
from app.domain.salience import scoring
from app.settings import Settings


class Summariser:
    """A chat model that summarises memories; thread-safe.

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
    def from_settings(cls, settings: Settings) -> Summariser:
        """Create the summariser with its own provider from the settings.

        Raises:
            Misconfigured: The settings name an invalid provider.
        """
        return cls(Provider.from_settings(settings), settings.summarising_model, Patience(settings.llm_timeout_seconds))

    @property
    def is_resting(self) -> bool:
        """True while the chat breaker is open."""
        return self._provider.health()["chat"] == "open"

    def close(self) -> None:
        """Close the provider's connections; the object is unusable afterwards."""
        self._provider.close()

    def summary(
        self,
        sources: Sequence[Source],
        form: Form,
        level: Level,
        extracted: Summary,
        spent: Spent = unnoted,
        fault: str | None = None,
    ) -> Summary:
        """Return a verified summary of the sources, in one call.

        Args:
            sources: One or more.
            form: Form of the summary.
            level: Level of compression.
            extracted: Extractive summary of the sources; the model's summary must be about as rich.
            spent: Receives the cost of the response, even of an unusable one.
            fault: Why the previous response was rejected, one of `checking.FAULTS`.

        Raises:
            ProviderFailed: There was no response, or it was rejected: `GARBAGE` or `TRUNCATED`, with one of
                `checking.FAULTS` as the detail.
        """
        mark = scoring.delimiter(self._random_bytes(scoring.DELIMITER_BYTES))
        reply = self._provider.chat(
            self.model,
            prompting.messages(sources, form, level, mark, checking.FAULTS[fault] if fault else None),
            schema=prompting.ANSWER_SCHEMA,
            tokens_max=prompting.answer_tokens_max(sources, level),
            patience=self._patience,
        )
        spent(reply.usage)
        if reply.problem is not None:
            raise ProviderFailed(reply.problem, "cut off" if reply.problem is Reason.TRUNCATED else "")
        try:
            return checking.read(reply.content, sources, level, mark, extracted, self.model)
        except checking.Refused as refused:
            detail = str(refused)
        raise ProviderFailed(Reason.GARBAGE, detail)
