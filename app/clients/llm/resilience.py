"""What to do when a provider fails: one table of failures, and small pieces that act on it.

Each piece has `run(work)` and may be shared by many threads. Together, outermost first: `Retries` (waits and tries
again), `Slots` (how many at once), `Breaker` (nobody asks while the provider is down). They know failures only as
`ProviderFailed`, whose message is a reason and numbers: never a text, a body or a key.
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

RETRY_AFTER_MAX_SECONDS: Final = 3600.0
"""A `Retry-After` beyond this is taken as this."""


class Reason(StrEnum):
    """Why a provider gave no usable answer."""

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
    """What becomes of the work."""

    RETRY = "retry"
    """The same request may succeed later: wait, then try; meanwhile the rules stand in."""
    FALL_BACK = "fall_back"
    """Trying again soon is no use: let the rules stand in where there are some."""
    DEAD_LETTER = "dead_letter"
    """This very request will always fail: set the memory aside, or keep what the rules say."""


@dataclass(frozen=True, slots=True)
class Treatment:
    """How one kind of failure is met.

    Attributes:
        verdict: What becomes of the work.
        trips: Whether it says that the provider as a whole is ill, and counts for the breaker. An answer that
            makes no sense doesn't: one tenant's text may have caused it, and mustn't shut out the others.
        halve: Whether a smaller batch may succeed, because one memory of it may be the cause.
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
"""Every failure and how it is met; nothing else decides."""


class ProviderFailed(Exception):
    """A provider gave no usable answer.

    Attributes:
        reason: Why.
        detail: More of it in our own words, such as `wrong count` or the host that was refused; may be empty.
        status: The HTTP status, where there was one.
        retry_after_seconds: How long the provider, or the breaker, asks to be left alone; 0 or more, or None.
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
        """How it is met."""
        return TREATMENTS[self.reason]


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait before the next try: full jitter under a doubling cap.

    Attributes:
        base_seconds: Cap of the first wait, above 0.
        cap_seconds: Cap of any wait that the provider didn't ask for.
        chance: A random number, 0 up to 1.
    """

    base_seconds: float = 0.5
    cap_seconds: float = 20.0
    chance: Callable[[], float] = random.random

    def delay_seconds(self, tries: int, retry_after_seconds: float | None = None) -> float:
        """Seconds to wait after so many tries, 1 or more.

        A `Retry-After` is honoured in full, with up to `base_seconds` on top, so that those who were sent away
        together don't return together.
        """
        if retry_after_seconds is not None:
            return max(retry_after_seconds, 0.0) + self.chance() * self.base_seconds
        return self.chance() * min(self.cap_seconds, self.base_seconds * 2.0 ** min(tries - 1, 60))


class Retries:
    """Tries again what may pass by itself, a few times and within a budget of waiting.

    Args:
        tries: Most tries in all, 1 or more.
        wait_max_seconds: Most seconds of waiting in all; a wait that would go beyond isn't begun, and the failure
            is raised with its `retry_after_seconds`, for the caller to come back later.
        backoff: How long each wait is.
        sleep: Waits so many seconds.
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
        """What `work` returns, at the last try.

        Raises:
            ProviderFailed: As `work` raised it at the last try, or at the first that can't be helped by waiting.
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
    """At most so many calls at once; the others wait a while for their turn.

    Args:
        slots: Calls at once, 1 or more.
    """

    def __init__(self, slots: int) -> None:
        self._free = threading.BoundedSemaphore(slots)

    def run(self, work: Callable[[], T], wait_max_seconds: float) -> T:
        """What `work` returns.

        Args:
            work: What to do.
            wait_max_seconds: Longest wait for a turn.

        Raises:
            ProviderFailed: `BUSY` when no turn came, else as `work` raised it.
        """
        if not self._free.acquire(timeout=wait_max_seconds):
            raise ProviderFailed(Reason.BUSY)
        try:
            return work()
        finally:
            self._free.release()


class Breaker:
    """Leaves a provider alone that keeps failing, then lets one call through to see.

    Closed, calls pass. After so many failures in a row it opens, and calls fail at once. A failure that comes with
    a `Retry-After` opens it at once, for that long. When the time is over it is half open: one call passes as a
    probe, the others still fail; its success closes the breaker, its failure opens it for twice as long as before.

    Args:
        failures: Failures in a row that open it, 1 or more.
        open_seconds: How long it stays open at first.
        open_max_seconds: How long it stays open at most, unless the provider asks for longer.
        clock: Seconds that never go back.
    """

    def __init__(
        self, failures: int, open_seconds: float, open_max_seconds: float = 300.0, clock: Clock = time.monotonic
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
        """`closed`, `open` or `half_open`."""
        with self._lock:
            if self._until is None:
                return "closed"
            return "open" if self._clock() < self._until else "half_open"

    def run(self, work: Callable[[], T]) -> T:
        """What `work` returns.

        Raises:
            ProviderFailed: As `work` raised it, or `CIRCUIT_OPEN` without calling it; `retry_after_seconds` says
                when the next probe may go.
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
            # Stopped in the middle, which says nothing; the next call is the probe.
            self._stopped(probe=probe)
            raise
        self._answered(probe=probe)
        return result

    def _enter(self) -> bool:
        """Whether this call is the probe."""
        with self._lock:
            if self._until is None:
                return False
            left = self._until - self._clock()
            if left > 0:
                raise ProviderFailed(Reason.CIRCUIT_OPEN, retry_after_seconds=left)
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
            asked = min(retry_after_seconds or 0.0, RETRY_AFTER_MAX_SECONDS)
            if self._until is not None and not probe:  # began before it opened; only a longer request counts
                self._until = max(self._until, self._clock() + asked)
            elif probe or self._failures >= self._most:
                own = min(self._open_seconds * 2.0 ** min(self._openings, 60), self._open_max_seconds)
                self._openings += 1
                self._until = self._clock() + max(own, asked)
            elif asked:
                self._until = self._clock() + asked

    def _stopped(self, *, probe: bool) -> None:
        if probe:
            with self._lock:
                self._probing = False
