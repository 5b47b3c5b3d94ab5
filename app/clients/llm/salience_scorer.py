"""Rate memories with a language model in batches, and bisect batches with unusable answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import count
from uuid import UUID

from app.clients.llm.chat_model import ChatModel
from app.clients.llm.resilience import Clock, ProviderFailed, Reason
from app.clients.llm.responses import Usage
from app.domain.salience import llm_scoring, rating_batches
from app.domain.salience.llm_scoring import Score
from app.domain.salience.rating_batches import UnscoredText


@dataclass(slots=True)
class Scored:
    """Outcome of rating memories.

    Attributes:
        scores: Scores by memory id.
        failed: Failures of individual memories by id. Memories without a result, because the provider failed or time
            ran out first, are in neither mapping.
        usage: Cost of all calls, including failed ones.
        cause: The failure of the provider if it ended the work, otherwise that of the last batch that ran out of time,
            otherwise that of the first memory that failed; None if all memories have a score.
    """

    scores: dict[UUID, Score] = field(default_factory=dict)
    failed: dict[UUID, ProviderFailed] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    cause: ProviderFailed | None = None

    @property
    def is_cut_short(self) -> bool:
        """True if the provider as a whole failed, so that no single memory can be the cause."""
        return self.cause is not None and not self.cause.treatment.halve


@dataclass(slots=True)
class Gathered:
    """Outcome of rating memories in several threads.

    Attributes:
        scores: Scores by memory id.
        failed: Failures caused by the memory itself, by memory id.
        spared: Memories whose status is unchanged, because they weren't sent or the provider failed. Memories in none
            of `scores`, `failed` and `spared` belonged to a problematic batch that ran out of time, and should be rated
            individually.
        illness: Failure of the provider as a whole, if any.
        usage: Cost of all calls, including failed ones.
    """

    scores: dict[UUID, Score] = field(default_factory=dict)
    failed: dict[UUID, ProviderFailed] = field(default_factory=dict)
    spared: set[UUID] = field(default_factory=set)
    illness: ProviderFailed | None = None
    usage: Usage = field(default_factory=Usage)

    def add(self, batch: Sequence[UnscoredText], outcome: Scored | None) -> None:
        """Merge the outcome of one batch; None means that the batch wasn't sent."""
        ids = {memory.memory_id for memory in batch}
        if outcome is None:
            self.spared |= ids
            return
        self.scores |= outcome.scores
        self.failed |= outcome.failed
        self.usage += outcome.usage
        if outcome.is_cut_short:
            self.illness = self.illness or outcome.cause
            self.spared |= ids - outcome.scores.keys() - outcome.failed.keys()

    @property
    def is_nonsense(self) -> bool:
        """True if there are answers about several memories and every answer was unusable."""
        several = len(self.failed) > 1 and not self.scores
        return several and all(failure.reason is Reason.GARBAGE for failure in self.failed.values())

    def blame_provider(self, reason: Reason) -> None:
        """Reclassify failures with this reason from the memories to the provider."""
        blamed = {memory_id for memory_id, failure in self.failed.items() if failure.reason is reason}
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
        batch_tokens: Maximum tokens of memories and their context per call.
        batch_memories: Maximum memories per call.
        clock: Monotonic clock in seconds.
    """

    def __init__(
        self,
        chat: ChatModel,
        *,
        batch_tokens: int = 4000,
        batch_memories: int = rating_batches.MEMORIES_MAX,
        clock: Clock = time.monotonic,
    ) -> None:
        self._chat = chat
        self._batch_tokens = batch_tokens
        self._batch_memories = batch_memories
        self._clock = clock
        self._was_understood = False

    def version(self, *, cues: bool) -> str:
        """Return the model and prompt version, which identify a score and its cache entry."""
        return llm_scoring.scorer_version(self._chat.model, cues=cues)

    @property
    def is_resting(self) -> bool:
        """True while the chat breaker is open."""
        return self._chat.is_resting

    @property
    def is_recovering(self) -> bool:
        """True if the next call probes a provider that failed before."""
        return self._chat.is_recovering

    def close(self) -> None:
        """Close the provider's connections; the object is unusable afterwards."""
        self._chat.close()

    def gather(self, memories: Sequence[UnscoredText], *, threads: int, seconds: float, cues: bool = False) -> Gathered:
        """Rate memories with one batch per thread; provider failures are returned, not raised.

        Args:
            memories: Any number.
            threads: Number of concurrent batches, 1 or more.
            seconds: Time limit for starting further batches after the first of each thread. A failure of the provider
                also stops new batches.
            cues: Also request cues: words and situations that should trigger the memory.
        """
        until = self._clock() + seconds
        provider_failed = threading.Event()

        def ask(place: int, batch: Sequence[UnscoredText]) -> Scored | None:
            if provider_failed.is_set() or (place >= threads and self._clock() >= until):
                return None
            scored = self.score(batch, cues=cues)
            if scored.is_cut_short:
                provider_failed.set()
            return scored

        gathered = Gathered()
        batches = list(rating_batches.split_batches(memories, self._batch_tokens, self._batch_memories))
        pool = ThreadPoolExecutor(threads)
        try:
            for batch, outcome in zip(batches, pool.map(ask, count(), batches), strict=True):
                gathered.add(batch, outcome)
        finally:
            # All batches are done unless the process is stopping, in which case it must not wait for a model's
            # response.
            pool.shutdown(wait=False, cancel_futures=True)
        self._was_understood |= bool(gathered.scores)
        if not self._was_understood:  # as long as every request fails, the server may not support the protocol
            gathered.blame_provider(Reason.BAD_REQUEST)
        if gathered.illness is None and gathered.is_nonsense:
            gathered.blame_provider(Reason.GARBAGE)
        return gathered

    def score(self, memories: Sequence[UnscoredText], *, cues: bool = False) -> Scored:
        """Rate memories; failures are returned, not raised.

        A batch with an unusable answer is split and its halves are retried, without context. If one half succeeds, the
        other is bisected further until the failing memory is isolated; if both answers are unusable too, all memories
        of the batch fail.
        An isolated memory is retried once. After `SETTLE_SECONDS` per batch, no further attempt starts; memories that
        aren't settled by then are in neither `scores` nor `failed`.

        Args:
            memories: Any number.
            cues: Request cues too.
        """
        work = _Work(self._chat, self._clock, cues=cues)
        for batch in rating_batches.split_batches(memories, self._batch_tokens, self._batch_memories):
            try:
                work.settle(batch)
            except _OutOfTime as late:
                work.scored.cause = late.failure
            except ProviderFailed as failure:
                work.scored.cause = failure
                break
        work.scored.cause = work.scored.cause or next(iter(work.scored.failed.values()), None)
        return work.scored


class _Work:
    """State of one call of `Scorer.score`."""

    def __init__(self, chat: ChatModel, clock: Clock, *, cues: bool) -> None:
        self._chat = chat
        self._cues = cues
        self._clock = clock
        self._until = 0.0
        self.scored = Scored()

    def settle(self, batch: Sequence[UnscoredText]) -> None:
        """Process a batch until each memory has a score or a failure.

        Raises:
            ProviderFailed: The provider as a whole failed; settled memories remain settled.
            _OutOfTime: Time ran out; settled memories remain settled.
        """
        self._until = self._clock() + llm_scoring.SETTLE_SECONDS
        failure = self._try(batch)
        if failure is None:
            return
        # Retries omit the context, so that a turn that the model can't process affects only its own rating.
        bare = [replace(memory, around=()) for memory in batch]
        if len(batch) == 1 and batch[0].around and failure.reason is not Reason.GARBAGE:
            failure = self._try(bare, failure)
        if failure is not None:
            self._settle_failed(bare, failure)

    def _settle_failed(self, batch: Sequence[UnscoredText], failure: ProviderFailed) -> None:
        if len(batch) == 1:
            retry_failure = self._try(batch, failure) if failure.reason is Reason.GARBAGE else failure
            self._give_up(batch, retry_failure)
            return
        middle = len(batch) // 2
        halves = [batch[:middle], batch[middle:]]
        failures = [self._try(half, failure) for half in halves]
        is_garbage = all(result is not None and result.reason is Reason.GARBAGE for result in failures)
        for half, failed in zip(halves, failures, strict=True):
            if is_garbage:
                self._give_up(half, failed)
            elif failed is not None:
                self._settle_failed(half, failed)

    def _try(self, batch: Sequence[UnscoredText], before: ProviderFailed | None = None) -> ProviderFailed | None:
        """Rate a batch once; return None on success, or a failure that a smaller batch may avoid.

        Args:
            before: The failure that led to this retry, if any.
        """
        if before is not None and self._clock() >= self._until:
            raise _OutOfTime(before)
        try:
            scores = self._chat.ask(llm_scoring.prompt(batch, cues=self._cues), self._add_usage)
        except ProviderFailed as failure:
            if failure.treatment.halve:
                return failure
            raise
        self.scored.scores.update(zip((memory.memory_id for memory in batch), scores, strict=True))
        return None

    def _add_usage(self, usage: Usage) -> None:
        self.scored.usage += usage

    def _give_up(self, batch: Sequence[UnscoredText], failure: ProviderFailed | None) -> None:
        if failure is not None:
            self.scored.failed.update((memory.memory_id, failure) for memory in batch)
