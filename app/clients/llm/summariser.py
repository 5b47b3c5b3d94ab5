"""Summaries by a provider's chat model: asked for, and checked."""

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
    """A chat model that sums up memories; may be used by many threads.

    Args:
        provider: Who is asked.
        model: Name of the model there.
        patience: How long one answer may take.
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
    def from_settings(cls, settings: Settings) -> Summariser:
        """The summariser that the settings name, with a provider of its own.

        Raises:
            Misconfigured: They name a provider that can't be.
        """
        return cls(Provider.from_settings(settings), settings.summarising_model, Patience(settings.llm_timeout_seconds))

    @property
    def is_resting(self) -> bool:
        """Whether the provider has failed so often that nobody should ask it for now."""
        return self._provider.health()["chat"] == "open"

    def close(self) -> None:
        """Close the provider's connections; it can't be used afterwards."""
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
        """A summary of the sources that has passed every check, by one call.

        Args:
            sources: One or more.
            form: What it is to be.
            level: How much shorter.
            extracted: What their own sentences make; a model's summary has to be about as rich.
            spent: Told what the answer has cost, a useless one too.
            fault: Why the answer before wasn't believed, one of `checking.FAULTS`.

        Raises:
            ProviderFailed: There was no answer, or none that is believed: then it is `GARBAGE` or `TRUNCATED`, and
                its detail one of `checking.FAULTS`.
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
