"""Scores of memories by a language model: ask in batches, believe only what fits, halve what doesn't."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import count
from uuid import UUID

from app.clients.llm.answers import Reply, Usage
from app.clients.llm.provider import Patience, Provider
from app.clients.llm.resilience import Clock, ProviderFailed, Reason
from app.domain.salience import scoring
from app.domain.salience.scoring import Score, Unscored
from app.settings import Settings


@dataclass(frozen=True, slots=True)
class Scored:
    """What became of memories that were to be scored.

    Attributes:
        scores: By memory id; whatever isn't here has no score.
        failed: Why a memory that was asked about has none, by memory id. Those that nothing is known about, because
            the provider fell ill or the time was over before, are in neither.
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


@dataclass(slots=True)
class Gathered:
    """What became of memories that several threads asked about.

    Attributes:
        scores: By memory id.
        failed: Why a memory has no score, where that is its own matter, by memory id.
        spared: Those that are as they were before: not asked about, or only by an ill provider. What is in none of the
            three made trouble in a batch until the time was over, and should come alone.
        illness: Why the provider as a whole gave no answer, where it didn't.
        usage: What all calls cost, the useless ones too.
    """

    scores: dict[UUID, Score] = field(default_factory=dict)
    failed: dict[UUID, ProviderFailed] = field(default_factory=dict)
    spared: set[UUID] = field(default_factory=set)
    illness: ProviderFailed | None = None
    usage: Usage = field(default_factory=Usage)

    def add(self, batch: Sequence[Unscored], outcome: Scored | ScoringFailed | None) -> None:
        """Take in what became of one batch; None is a batch that wasn't asked about."""
        ids = {memory.memory_id for memory in batch}
        if outcome is None:
            self.spared |= ids
            return
        scored = outcome.scored if isinstance(outcome, ScoringFailed) else outcome
        self.scores |= scored.scores
        self.failed |= scored.failed
        self.usage += scored.usage
        if isinstance(outcome, ScoringFailed) and _is_illness(outcome):
            self.illness = self.illness or outcome
            self.spared |= ids - scored.scores.keys() - scored.failed.keys()

    @property
    def is_nonsense(self) -> bool:
        """Whether there were answers about several texts, and none of them made sense."""
        several = len(self.failed) > 1 and not self.scores
        return several and all(failure.reason is Reason.GARBAGE for failure in self.failed.values())

    def blame_provider(self, reason: Reason) -> None:
        """Take what failed for this reason for the provider's matter, and not the memories'."""
        blamed = {memory_id for memory_id, each in self.failed.items() if each.reason is reason}
        for memory_id in blamed:
            self.illness = self.illness or self.failed[memory_id]
            del self.failed[memory_id]
        self.spared |= blamed


class _OutOfTime(Exception):
    """A batch made trouble for too long."""

    def __init__(self, failure: ProviderFailed) -> None:
        super().__init__()
        self.failure = failure


class Scorer:
    """A chat model that scores memories; may be used by many threads.

    Args:
        provider: Who is asked.
        model: Name of the model.
        patience: How long one answer may take.
        batch_tokens: Tokens of memories in one call.
        batch_memories: Memories in one call.
        random_bytes: Gives so many random bytes, for the marks of the blocks.
        clock: Seconds that never go back.
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
        clock: Clock = time.monotonic,
    ) -> None:
        self._provider = provider
        self._model = model
        self._patience = patience
        self._batch_tokens = batch_tokens
        self._batch_memories = batch_memories
        self._random_bytes = random_bytes
        self._clock = clock
        self._was_understood = False

    @classmethod
    def from_settings(cls, provider: Provider, settings: Settings) -> Scorer:
        """The scorer that the settings name.

        It tries once: what waits to be rated stands in rows, and comes again by itself. Waiting for the next try here
        would hold the lane that the rules share.
        """
        return cls(
            provider,
            settings.salience_model,
            Patience(settings.llm_timeout_seconds),
            batch_tokens=settings.score_batch_tokens,
            batch_memories=settings.score_batch_memories,
        )

    def version(self, *, cues: bool) -> str:
        """Return the model and the prompt, with cues or without: what a score, and a cache of scores, belongs to."""
        return scoring.version(self._model, cues=cues)

    @property
    def is_resting(self) -> bool:
        """Whether the provider has failed so often that nobody should ask it for now."""
        return self._provider.health()["chat"] == "open"

    def close(self) -> None:
        """Close the provider's connections; it can't be used afterwards."""
        self._provider.close()

    def gather(self, memories: Sequence[Unscored], *, threads: int, seconds: float, cues: bool = False) -> Gathered:
        """Scores of the memories, a batch a thread. Raises nothing for a provider that fails.

        Args:
            memories: Any number.
            threads: Batches at once, 1 or more.
            seconds: After these no further batch is begun than the first of each thread; nor after the provider
                fell ill.
            cues: Ask for cues too.
        """
        until = self._clock() + seconds
        is_ill = threading.Event()

        def ask(place: int, batch: Sequence[Unscored]) -> Scored | ScoringFailed | None:
            if is_ill.is_set() or (place >= threads and self._clock() >= until):
                return None
            try:
                return self.score(batch, cues=cues)
            except ScoringFailed as failure:
                if _is_illness(failure):
                    is_ill.set()
                return failure

        gathered = Gathered()
        batches = list(scoring.batches(memories, self._batch_tokens, self._batch_memories))
        pool = ThreadPoolExecutor(threads)
        try:
            for batch, outcome in zip(batches, pool.map(ask, count(), batches), strict=True):
                gathered.add(batch, outcome)
        finally:
            # All is done here, unless the process was told to stop: then it doesn't wait for what a model may say.
            pool.shutdown(wait=False, cancel_futures=True)
        self._was_understood |= bool(gathered.scores)
        if not self._was_understood:  # a server that finds fault with every request hasn't understood one yet
            gathered.blame_provider(Reason.BAD_REQUEST)
        if gathered.illness is None and gathered.is_nonsense:
            gathered.blame_provider(Reason.GARBAGE)
        return gathered

    def score(self, memories: Sequence[Unscored], *, cues: bool = False) -> Scored:
        """Scores of all the memories.

        An answer that isn't about exactly the memories asked is asked for again in halves. A half that does no
        better, beside one that did, is halved on until the memory that can't be scored stands alone; when both
        halves make no sense, the model is taken at its word. A memory that stands alone is asked about once more.
        That takes `SETTLE_SECONDS` for a batch at most; what isn't settled by then is in neither.

        Args:
            memories: Any number.
            cues: Ask for cues too.

        Raises:
            ScoringFailed: Some have no score; holds those that have, and why the others haven't.
        """
        work = _Work(self, self._clock, cues=cues)
        cause = None
        for batch in scoring.batches(memories, self._batch_tokens, self._batch_memories):
            try:
                work.settle(batch)
            except _OutOfTime as late:
                cause = late.failure
            except ProviderFailed as failure:
                cause = failure
                break
        cause = cause or next(iter(work.scored.failed.values()), None)
        if cause is not None:
            raise ScoringFailed(cause.reason, cause.detail, cause.status, cause.retry_after_seconds, work.scored)
        return work.scored

    def ask(self, batch: Sequence[Unscored], *, cues: bool) -> tuple[Reply, str]:
        """What the model answers about one batch, and the mark that the batch went with.

        Raises:
            ProviderFailed: There was no answer.
        """
        mark = scoring.delimiter(self._random_bytes(scoring.DELIMITER_BYTES))
        reply = self._provider.chat(
            self._model,
            scoring.messages(batch, mark, cues=cues),
            schema=scoring.CUES_SCHEMA if cues else scoring.ANSWER_SCHEMA,
            tokens_max=scoring.answer_tokens_max(len(batch)),
            patience=self._patience,
        )
        return reply, mark


class _Work:
    """One call of `Scorer.score`: what has been found so far."""

    def __init__(self, scorer: Scorer, clock: Clock, *, cues: bool) -> None:
        self._scorer = scorer
        self._cues = cues
        self._clock = clock
        self._until = 0.0
        self.scored = Scored()

    def settle(self, batch: Sequence[Unscored]) -> None:
        """See a batch to its end: each memory has a score or a failure.

        Raises:
            ProviderFailed: The provider is ill; what was settled until then stays.
            _OutOfTime: So does it when the time is over.
        """
        self._until = self._clock() + scoring.SETTLE_SECONDS
        if failure := self._try(batch):
            self._settle_failed(batch, failure)

    def _settle_failed(self, batch: Sequence[Unscored], failure: ProviderFailed) -> None:
        if len(batch) == 1:
            again = self._try(batch, failure) if failure.reason is Reason.GARBAGE else failure
            self._give_up(batch, again)
            return
        middle = len(batch) // 2
        halves = [batch[:middle], batch[middle:]]
        failures = [self._try(half, failure) for half in halves]
        senseless = all(each is not None and each.reason is Reason.GARBAGE for each in failures)
        for half, failed in zip(halves, failures, strict=True):
            if senseless:
                self._give_up(half, failed)
            elif failed is not None:
                self._settle_failed(half, failed)

    def _try(self, batch: Sequence[Unscored], before: ProviderFailed | None = None) -> ProviderFailed | None:
        """Nothing when the batch is scored; else a failure that a smaller batch may not meet.

        Args:
            before: Why it is asked about once more.
        """
        if before is not None and self._clock() >= self._until:
            raise _OutOfTime(before)
        try:
            reply, mark = self._scorer.ask(batch, cues=self._cues)
        except ProviderFailed as failure:
            if failure.treatment.halve:
                return failure
            raise
        self.scored = replace(self.scored, usage=self.scored.usage + reply.usage)
        if reply.problem is not None:
            return ProviderFailed(reply.problem)
        try:
            scores = scoring.read(reply.content, batch, mark, cues=self._cues)
        except scoring.Unusable as unusable:
            return ProviderFailed(Reason.GARBAGE, str(unusable))
        self.scored.scores.update(zip((memory.memory_id for memory in batch), scores, strict=True))
        return None

    def _give_up(self, batch: Sequence[Unscored], failure: ProviderFailed | None) -> None:
        if failure is not None:
            self.scored.failed.update((memory.memory_id, failure) for memory in batch)


def _is_illness(failure: ProviderFailed) -> bool:
    """Whether the provider as a whole gave no answer: no memory can be the cause, as it may where halving helps."""
    return not failure.treatment.halve
