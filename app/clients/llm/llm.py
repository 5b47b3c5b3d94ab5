"""Rate memories with a language model in batches; bisect the batches whose answers are unusable."""

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
    """Outcome of rating memories.

    Attributes:
        scores: Scores by memory id.
        failed: Failures of individual memories by id. Memories without a result, because the provider failed or time
            ran out first, are in neither mapping.
        usage: Cost of all calls, including failed ones.
    """

    scores: dict[UUID, Score] = field(default_factory=dict)
    failed: dict[UUID, ProviderFailed] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)


class ScoringFailed(ProviderFailed):
    """Some memories have no score; `scored` holds the partial outcome, and the rule-based scores remain for the others.

    The reason is the provider's failure if it ended the work, otherwise that of the first memory that failed.
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
    """Outcome of rating memories in several threads.

    Attributes:
        scores: Scores by memory id.
        failed: Failures caused by the memory itself, by memory id.
        spared: Memories whose status is unchanged: not rated, or only by a failing provider. Memories in none of the
            three belonged to a problematic batch that ran out of time, and should be rated individually.
        illness: Failure of the provider as a whole, if any.
        usage: Cost of all calls, including failed ones.
    """

    scores: dict[UUID, Score] = field(default_factory=dict)
    failed: dict[UUID, ProviderFailed] = field(default_factory=dict)
    spared: set[UUID] = field(default_factory=set)
    illness: ProviderFailed | None = None
    usage: Usage = field(default_factory=Usage)

    def add(self, batch: Sequence[Unscored], outcome: Scored | ScoringFailed | None) -> None:
        """Merge the outcome of one batch; None means that the batch wasn't sent."""
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
        """True if several texts were answered but every answer was unusable."""
        several = len(self.failed) > 1 and not self.scores
        return several and all(failure.reason is Reason.GARBAGE for failure in self.failed.values())

    def blame_provider(self, reason: Reason) -> None:
        """Reclassify failures with this reason from the memories to the provider."""
        blamed = {memory_id for memory_id, each in self.failed.items() if each.reason is reason}
        for memory_id in blamed:
            self.illness = self.illness or self.failed[memory_id]
            del self.failed[memory_id]
        self.spared |= blamed


class _OutOfTime(Exception):
    """Time ran out while bisecting a batch."""

    def __init__(self, failure: ProviderFailed) -> None:
        super().__init__()
        self.failure = failure


class Scorer:
    """A chat model that rates memories; thread-safe.

    Args:
        patience: Timeout of a response.
        batch_tokens: Maximum tokens of memories per call.
        batch_memories: Maximum memories per call.
        random_bytes: Source of random bytes for block markers.
        clock: Monotonic clock in seconds.
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
        """Create the scorer from the settings.

        It makes a single attempt: pending ratings are stored in rows and are picked up again later. Waiting for a retry
        here would block the lane that is shared with the rules.
        """
        return cls(
            provider,
            settings.salience_model,
            Patience(settings.llm_timeout_seconds),
            batch_tokens=settings.score_batch_tokens,
            batch_memories=settings.score_batch_memories,
        )

    def version(self, *, cues: bool) -> str:
        """Return the model and prompt version, which identify a score and its cache entry."""
        return scoring.version(self._model, cues=cues)

    @property
    def is_resting(self) -> bool:
        """True while the chat breaker is open."""
        return self._provider.health()["chat"] == "open"

    def close(self) -> None:
        """Close the provider's connections; the object is unusable afterwards."""
        self._provider.close()

    def gather(self, memories: Sequence[Unscored], *, threads: int, seconds: float, cues: bool = False) -> Gathered:
        """Rate memories with one batch per thread; provider failures are returned, not raised.

        Args:
            memories: Any number.
            threads: Number of concurrent batches, 1 or more.
            seconds: Time limit for starting batches, other than the first of each thread. A failure of the provider
                also stops new batches.
            cues: Request cues too.
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
            # All batches are done unless the process is stopping, in which case it must not wait for a model's
            # response.
            pool.shutdown(wait=False, cancel_futures=True)
        self._was_understood |= bool(gathered.scores)
        if not self._was_understood:  # a server that rejects every request has not accepted the protocol yet
            gathered.blame_provider(Reason.BAD_REQUEST)
        if gathered.illness is None and gathered.is_nonsense:
            gathered.blame_provider(Reason.GARBAGE)
        return gathered

    def score(self, memories: Sequence[Unscored], *, cues: bool = False) -> Scored:
        """Rate all the memories.

        A batch with an unusable answer is split and its halves are retried. If one half succeeds, the other is bisected
        further until the failing memory is isolated; if both answers are unusable too, all memories of the batch fail.
        An isolated memory is retried once. This takes at most `SETTLE_SECONDS` per batch; memories not settled by then
        are in neither mapping.

        Args:
            memories: Any number.
            cues: Request cues too.

        Raises:
            ScoringFailed: Some memories have no score; contains the scores and the failures.
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
        """Send one batch and return the response with the batch's marker.

        Raises:
            ProviderFailed: There was no response.
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
    """State of one call of `Scorer.score`."""

    def __init__(self, scorer: Scorer, clock: Clock, *, cues: bool) -> None:
        self._scorer = scorer
        self._cues = cues
        self._clock = clock
        self._until = 0.0
        self.scored = Scored()

    def settle(self, batch: Sequence[Unscored]) -> None:
        """Process a batch until each memory has a score or a failure.

        Raises:
            ProviderFailed: The provider as a whole failed; settled memories remain settled.
            _OutOfTime: Time ran out; settled memories remain settled.
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
        """Rate a batch once; return None on success, or a failure that a smaller batch may avoid.

        Args:
            before: The failure that led to this retry, if any.
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
    """Return true if the provider as a whole failed, so that no single memory can be the cause."""
    return not failure.treatment.halve
