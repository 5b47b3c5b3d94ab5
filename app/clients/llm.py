"""Scores of memories by a language model: ask in batches, believe only what fits, halve what doesn't."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from app.clients.answers import Reply, Usage
from app.clients.provider import Patience, Provider
from app.clients.resilience import ProviderFailed, Reason
from app.domain import scoring
from app.domain.scoring import PROMPT_VERSION, Score, Unscored
from app.settings import Settings


@dataclass(frozen=True, slots=True)
class Scored:
    """What became of memories that were to be scored.

    Attributes:
        scores: By memory id; whatever isn't here has no score.
        failed: Why a memory that was asked about has none, by memory id. Those that weren't asked about, because
            the provider fell ill before, are in neither.
        usage: What all calls cost, the useless ones too.
    """

    scores: dict[UUID, Score] = field(default_factory=dict)
    failed: dict[UUID, ProviderFailed] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)


class ScoringFailed(ProviderFailed):
    """Not every memory has a score. What there is, is in `scored`; for the others the rules stand in.

    Its reason is the provider's illness where that ended the work, else that of the first memory that failed.
    """

    def __init__(
        self,
        reason: Reason,
        detail: str = "",
        status: int | None = None,
        retry_after_seconds: float | None = None,
        scored: Scored | None = None,
    ) -> None:
        super().__init__(reason, detail, status, retry_after_seconds)
        self.scored = scored or Scored()


class Scorer:
    """A chat model that scores memories; may be used by many threads.

    Args:
        provider: Who is asked.
        model: Name of the model.
        patience: How long one answer may take.
        batch_tokens: Tokens of memories in one call.
        batch_memories: Memories in one call.
        random_bytes: Gives so many random bytes, for the marks of the blocks.
    """

    def __init__(
        self,
        provider: Provider,
        model: str,
        patience: Patience,
        *,
        batch_tokens: int = 4000,
        batch_memories: int = scoring.MEMORIES_MAX,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._provider = provider
        self._model = model
        self._patience = patience
        self._batch_tokens = batch_tokens
        self._batch_memories = batch_memories
        self._random_bytes = random_bytes

    @classmethod
    def from_settings(cls, provider: Provider, settings: Settings) -> Scorer:
        """The scorer that the settings name."""
        patience = Patience(settings.llm_timeout_seconds, settings.llm_tries, settings.llm_wait_max_seconds)
        return cls(
            provider,
            settings.salience_model,
            patience,
            batch_tokens=settings.score_batch_tokens,
            batch_memories=settings.score_batch_memories,
        )

    @property
    def version(self) -> str:
        """The model and the prompt: what a score, and a cache of scores, belongs to."""
        return f"{self._model}/{PROMPT_VERSION}"

    def score(self, memories: Sequence[Unscored]) -> Scored:
        """Scores of all the memories.

        An answer that isn't about exactly the memories asked is asked for again in halves. A half that does no
        better, beside one that did, is halved on until the memory that can't be scored stands alone; when both
        halves make no sense, the model is taken at its word. A memory that stands alone is asked about once more.

        Raises:
            ScoringFailed: Some have no score; holds those that have, and why the others haven't.
        """
        work = _Work(self)
        illness = None
        for batch in scoring.batches(memories, self._batch_tokens, self._batch_memories):
            try:
                work.settle(batch)
            except ProviderFailed as failure:
                illness = failure
                break
        cause = illness or next(iter(work.scored.failed.values()), None)
        if cause is not None:
            raise ScoringFailed(cause.reason, cause.detail, cause.status, cause.retry_after_seconds, work.scored)
        return work.scored

    def ask(self, batch: Sequence[Unscored]) -> tuple[Reply, str]:
        """What the model answers about one batch, and the mark that the batch went with.

        Raises:
            ProviderFailed: There was no answer.
        """
        mark = scoring.delimiter(self._random_bytes(scoring.DELIMITER_BYTES))
        reply = self._provider.chat(
            self._model,
            scoring.messages(batch, mark),
            schema=scoring.ANSWER_SCHEMA,
            tokens_max=scoring.answer_tokens_max(len(batch)),
            patience=self._patience,
        )
        return reply, mark


class _Work:
    """One call of `Scorer.score`: what has been found so far."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self.scored = Scored()

    def settle(self, batch: Sequence[Unscored]) -> None:
        """See a batch to its end: each memory has a score or a failure.

        Raises:
            ProviderFailed: The provider is ill; what was settled until then stays.
        """
        if failure := self._try(batch):
            self._settle_failed(batch, failure)

    def _settle_failed(self, batch: Sequence[Unscored], failure: ProviderFailed) -> None:
        if len(batch) == 1:
            again = self._try(batch) if failure.reason is Reason.GARBAGE else failure
            self._give_up(batch, again)
            return
        middle = len(batch) // 2
        halves = [batch[:middle], batch[middle:]]
        failures = [self._try(half) for half in halves]
        senseless = all(each is not None and each.reason is Reason.GARBAGE for each in failures)
        for half, failed in zip(halves, failures, strict=True):
            if senseless:
                self._give_up(half, failed)
            elif failed is not None:
                self._settle_failed(half, failed)

    def _try(self, batch: Sequence[Unscored]) -> ProviderFailed | None:
        """Nothing when the batch is scored; else a failure that a smaller batch may not meet."""
        try:
            reply, mark = self._scorer.ask(batch)
        except ProviderFailed as failure:
            if failure.treatment.halve:
                return failure
            raise
        self.scored = replace(self.scored, usage=self.scored.usage + reply.usage)
        if reply.problem is not None:
            return ProviderFailed(reply.problem)
        try:
            scores = scoring.read(reply.content, batch, mark)
        except scoring.Unusable as unusable:
            return ProviderFailed(Reason.GARBAGE, str(unusable))
        self.scored.scores.update(zip((memory.memory_id for memory in batch), scores, strict=True))
        return None

    def _give_up(self, batch: Sequence[Unscored], failure: ProviderFailed | None) -> None:
        if failure is not None:
            self.scored.failed.update((memory.memory_id, failure) for memory in batch)
