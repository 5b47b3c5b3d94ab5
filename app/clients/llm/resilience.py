"""Handle provider failures: one table of treatments, and the mechanisms that apply it.

Each mechanism has a method `run(work)` and is thread-safe. The mechanisms nest, outermost first: `Retries` (waits and
retries), `Slots` (limits concurrency), `Breaker` (stops calls while the provider is down). They only handle
`ProviderFailed`, whose message is a reason and numbers and never contains a text, a body or a key. The numbers of
attempts are settings.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeVar

T = TypeVar("T")
Clock = Callable[[], float]

PROBE_SECONDS: Final = 45.0
"""Maximum interval between probes of a failing or paused provider, so that work resumes within a minute."""


class Reason(StrEnum):
    """Reasons why a provider gave no usable response."""

    RATE_LIMITED = "rate_limited"
    OUT_OF_QUOTA = "out_of_quota"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    SERVER_ERROR = "server_error"
    CIRCUIT_OPEN = "circuit_open"
    BUSY = "busy"
    NOT_AUTHORISED = "not_authorised"
    NOT_FOUND = "not_found"
    REDIRECTED = "redirected"
    HOST_REFUSED = "host_refused"
    GARBAGE = "garbage"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    TOO_LARGE = "too_large"
    BAD_REQUEST = "bad_request"


class Verdict(StrEnum):
    """Consequence of a failure for the work."""

    RETRY = "retry"
    """The same request may succeed later: wait and retry; until then, rule-based results apply."""
    FALL_BACK = "fall_back"
    """An early retry won't help: use the rule-based result, if there is one."""
    DEAD_LETTER = "dead_letter"
    """This request will always fail: dead-letter the memory, or keep the rule-based result."""


@dataclass(frozen=True, slots=True)
class Treatment:
    """Treatment of one kind of failure.

    Attributes:
        verdict: Consequence for the work.
        trips: True if the failure indicates that the provider as a whole is down, and counts for the breaker. An
            unusable answer doesn't count: one tenant's text may have caused it and must not affect other tenants.
        halve: True if a single memory may be the cause, so that a smaller batch may succeed.
    """

    verdict: Verdict
    trips: bool = False
    halve: bool = False


TREATMENTS: Final = MappingProxyType(
    {
        Reason.RATE_LIMITED: Treatment(Verdict.RETRY, trips=True),
        Reason.TIMEOUT: Treatment(Verdict.RETRY, trips=True),
        Reason.UNREACHABLE: Treatment(Verdict.RETRY, trips=True),
        Reason.SERVER_ERROR: Treatment(Verdict.RETRY, trips=True),
        Reason.CIRCUIT_OPEN: Treatment(Verdict.RETRY),
        Reason.BUSY: Treatment(Verdict.RETRY),
        Reason.OUT_OF_QUOTA: Treatment(Verdict.FALL_BACK, trips=True),
        Reason.NOT_AUTHORISED: Treatment(Verdict.FALL_BACK, trips=True),
        Reason.NOT_FOUND: Treatment(Verdict.FALL_BACK, trips=True),
        Reason.REDIRECTED: Treatment(Verdict.FALL_BACK, trips=True),
        Reason.HOST_REFUSED: Treatment(Verdict.FALL_BACK, trips=True),
        Reason.GARBAGE: Treatment(Verdict.FALL_BACK, halve=True),
        Reason.TRUNCATED: Treatment(Verdict.FALL_BACK, halve=True),
        Reason.REFUSED: Treatment(Verdict.FALL_BACK, halve=True),
        Reason.TOO_LARGE: Treatment(Verdict.DEAD_LETTER, halve=True),
        Reason.BAD_REQUEST: Treatment(Verdict.DEAD_LETTER, halve=True),
    }
)
"""Single source for the treatment of every failure."""


class ProviderFailed(Exception):
    """A provider gave no usable response.

    Attributes:
        reason: Kind of failure.
        detail: Fixed phrase such as `wrong count`, or the refused host; may be empty.
        status: HTTP status, if there was one.
        retry_after_seconds: Wait requested by the provider or the breaker, 0 or more, or None.
    """

    def __init__(
        self, reason: Reason, detail: str = "", status: int | None = None, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(reason, detail, status, retry_after_seconds)
        self.reason = reason
        self.detail = detail
        self.status = status
        self.retry_after_seconds = retry_after_seconds

    def __str__(self) -> str:
        parts = [self.reason.value, self.detail, f"status {self.status}" if self.status else ""]
        return ", ".join(filter(None, parts))

    @property
    def treatment(self) -> Treatment:
        """Treatment of this failure."""
        return TREATMENTS[self.reason]


@dataclass(frozen=True, slots=True)
class Backoff:
    """Wait times between attempts: full jitter under an exponentially growing cap.

    Attributes:
        base_seconds: Cap of the first wait, above 0.
        cap_seconds: Maximum cap; doesn't apply to waits requested by the provider.
        chance: Returns random numbers in [0, 1).
    """

    base_seconds: float = 0.5
    cap_seconds: float = 20.0
    chance: Callable[[], float] = random.random

    def delay_seconds(self, tries: int, retry_after_seconds: float | None = None) -> float:
        """Return the seconds to wait after this many attempts, 1 or more.

        A `Retry-After` is honoured in full. Jitter of up to `base_seconds` is added, so that clients that were rejected
        at the same time don't retry at the same time.
        """
        if retry_after_seconds is not None:
            return max(retry_after_seconds, 0.0) + self.chance() * self.base_seconds
        return self.chance() * min(self.cap_seconds, self.base_seconds * 2.0 ** min(tries - 1, 60))


class Retries:
    """Retries transient failures, limited in number and in total waiting time.

    Args:
        tries: Maximum number of attempts, 1 or more.
        wait_max_seconds: Maximum total wait in seconds. A wait that would exceed it is not started; the failure is
            raised with its `retry_after_seconds`, so that the caller can retry later.
        sleep: Sleep function, in seconds.
    """

    def __init__(
        self,
        tries: int,
        wait_max_seconds: float,
        backoff: Backoff | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._tries = tries
        self._wait_max_seconds = wait_max_seconds
        self._backoff = backoff or Backoff()
        self._sleep = sleep

    def run(self, work: Callable[[], T]) -> T:
        """Run `work`, retrying transient failures, and return its result.

        Raises:
            ProviderFailed: The failure of the last attempt, or the first failure that isn't transient.
        """
        waited = 0.0
        tries = 1
        while True:
            try:
                return work()
            except ProviderFailed as failure:
                if failure.treatment.verdict is not Verdict.RETRY or tries >= self._tries:
                    raise
                delay = self._backoff.delay_seconds(tries, failure.retry_after_seconds)
                if waited + delay > self._wait_max_seconds:
                    raise
            self._sleep(delay)
            waited += delay
            tries += 1


class Slots:
    """Limits the number of concurrent calls; further calls wait for a free slot.

    Args:
        slots: Maximum number of concurrent calls, 1 or more.
    """

    def __init__(self, slots: int) -> None:
        self._free = threading.BoundedSemaphore(slots)

    def run(self, work: Callable[[], T], wait_max_seconds: float) -> T:
        """Run `work` in a slot and return its result.

        Args:
            wait_max_seconds: Maximum wait for a slot.

        Raises:
            ProviderFailed: `BUSY` if no slot became free, or the failure of `work`.
        """
        if not self._free.acquire(timeout=wait_max_seconds):
            raise ProviderFailed(Reason.BUSY)
        try:
            return work()
        finally:
            self._free.release()


class Breaker:
    """Circuit breaker: stops calls to a failing provider, then probes the provider with a single call.

    While the breaker is closed, calls pass. A number of consecutive failures opens it, and calls then fail immediately.
    A failure with a `Retry-After` opens it at once, for the requested time, at most `open_max_seconds`. When its time
    in the open state is over, the breaker is half open: one call passes as a probe and the others still fail. If the
    probe succeeds, the breaker closes; if it fails, the breaker opens for twice as long as before.

    Args:
        failures: Number of consecutive failures that open the breaker, 1 or more.
        open_seconds: Initial time in the open state.
        open_max_seconds: Maximum time in the open state, even if the provider requests longer: it may request an hour
            and recover within a minute.
        clock: Monotonic clock in seconds.
    """

    def __init__(
        self, failures: int, open_seconds: float, open_max_seconds: float = PROBE_SECONDS, clock: Clock = time.monotonic
    ) -> None:
        self._most = failures
        self._open_seconds = open_seconds
        self._open_max_seconds = max(open_seconds, open_max_seconds)
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._openings = 0
        self._until: float | None = None
        self._probing = False

    @property
    def state(self) -> str:
        """State: `closed`, `open` or `half_open`."""
        with self._lock:
            if self._until is None:
                return "closed"
            return "open" if self._clock() < self._until else "half_open"

    @property
    def open_seconds(self) -> float:
        """Seconds until the next probe; 0 unless the breaker is open."""
        with self._lock:
            return 0.0 if self._until is None else max(self._until - self._clock(), 0.0)

    def run(self, work: Callable[[], T]) -> T:
        """Run `work` unless the breaker is open, and return its result.

        Raises:
            ProviderFailed: The failure of `work`, or `CIRCUIT_OPEN` without a call; its `retry_after_seconds` is the
                time until the next probe, or None while a probe is running.
        """
        probe = self._enter()
        try:
            result = work()
        except ProviderFailed as failure:
            if failure.treatment.trips:
                self._failed(probe=probe, retry_after_seconds=failure.retry_after_seconds)
            else:
                self._answered(probe=probe)
            raise
        except BaseException:
            # An interrupted call is inconclusive; the next call becomes the probe.
            self._stopped(probe=probe)
            raise
        self._answered(probe=probe)
        return result

    def _enter(self) -> bool:
        """Return true if this call is the probe."""
        with self._lock:
            if self._until is None:
                return False
            remaining = self._until - self._clock()
            if remaining > 0:
                raise ProviderFailed(Reason.CIRCUIT_OPEN, retry_after_seconds=remaining)
            if self._probing:
                raise ProviderFailed(Reason.CIRCUIT_OPEN)
            self._probing = True
            return True

    def _answered(self, *, probe: bool) -> None:
        with self._lock:
            if probe:
                self._until, self._openings, self._probing = None, 0, False
            if self._until is None:
                self._failures = 0

    def _failed(self, *, probe: bool, retry_after_seconds: float | None) -> None:
        with self._lock:
            self._failures += 1
            if probe:
                self._probing = False
            requested = min(retry_after_seconds or 0.0, self._open_max_seconds)
            if (
                self._until is not None and not probe
            ):  # the call started before the breaker opened: it can only extend the open state
                self._until = max(self._until, self._clock() + requested)
            elif probe or self._failures >= self._most:
                scheduled = min(self._open_seconds * 2.0 ** min(self._openings, 60), self._open_max_seconds)
                self._openings += 1
                self._until = self._clock() + max(scheduled, requested)
            elif requested:
                self._until = self._clock() + requested

    def _stopped(self, *, probe: bool) -> None:
        if probe:
            with self._lock:
                self._probing = False
