"""Provider failures: classification, backoff, circuit breaker, and limit on concurrent calls."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.clients.llm.resilience import (
    PROBE_SECONDS,
    TREATMENTS,
    Backoff,
    Breaker,
    ProviderFailed,
    Reason,
    Retries,
    Slots,
    Verdict,
)
from tests.waiting import PATIENCE_SECONDS

CLOSED, OPEN, HALF_OPEN = "closed", "open", "half_open"


class Clock:
    """A manual clock; sleeping advances it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def failing(reason: Reason, retry_after: float | None = None) -> Callable[[], str]:
    def work() -> str:
        raise ProviderFailed(reason, retry_after_seconds=retry_after)

    return work


def ok() -> str:
    return "ok"


def fails(breaker: Breaker, reason: Reason = Reason.SERVER_ERROR, retry_after: float | None = None) -> Reason:
    """Make a failing call and return the reason it raises."""
    with pytest.raises(ProviderFailed) as failed:
        breaker.run(failing(reason, retry_after))
    return failed.value.reason


class Turns:
    """Callable that fails once with each of the reasons, then succeeds."""

    def __init__(self, *reasons: Reason, retry_after: float | None = None) -> None:
        self.left = list(reasons)
        self.retry_after = retry_after
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        return failing(self.left.pop(0), self.retry_after)() if self.left else "ok"


# --- The table of failures ---


def test_every_reason_has_a_treatment() -> None:
    assert set(TREATMENTS) == set(Reason)


def test_what_passes_by_itself_is_tried_again_and_what_does_not_is_not() -> None:
    verdicts = {reason: treatment.verdict for reason, treatment in TREATMENTS.items()}
    for reason in (Reason.RATE_LIMITED, Reason.TIMEOUT, Reason.UNREACHABLE, Reason.SERVER_ERROR, Reason.CIRCUIT_OPEN):
        assert verdicts[reason] is Verdict.RETRY
    for reason in (Reason.GARBAGE, Reason.REFUSED, Reason.NOT_AUTHORISED, Reason.OUT_OF_QUOTA):
        assert verdicts[reason] is Verdict.FALL_BACK
    for reason in (Reason.BAD_REQUEST, Reason.TOO_LARGE):
        assert verdicts[reason] is Verdict.DEAD_LETTER


def test_what_one_text_can_cause_never_shuts_out_the_others() -> None:
    assert [reason for reason, treatment in TREATMENTS.items() if treatment.halve and treatment.trips] == []


def test_a_failure_says_its_reason_and_numbers_and_survives_a_process_border() -> None:
    failure = ProviderFailed(Reason.GARBAGE, "wrong count", 200, 1.5)
    assert str(failure) == "garbage, wrong count, status 200"
    copy = pickle.loads(pickle.dumps(failure))  # noqa: S301 - our own
    assert (copy.reason, copy.detail, copy.status, copy.retry_after_seconds) == (
        Reason.GARBAGE,
        "wrong count",
        200,
        1.5,
    )


# --- Backoff ---


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_waits_are_anywhere_under_a_doubling_cap(tries: int, chance: float) -> None:
    backoff = Backoff(base_seconds=0.5, cap_seconds=20, chance=lambda: chance)
    assert 0 <= backoff.delay_seconds(tries) <= min(20, 0.5 * 2 ** min(tries - 1, 10))
    assert backoff.delay_seconds(tries) == pytest.approx(chance * min(20, 0.5 * 2 ** min(tries - 1, 10)))


@given(st.floats(0, 3600), st.floats(0, 1, exclude_max=True))
def test_a_retry_after_is_honoured_in_full(asked: float, chance: float) -> None:
    assert asked <= Backoff(chance=lambda: chance).delay_seconds(1, asked) <= asked + 0.5


def test_a_passing_failure_is_tried_again(clock: Clock) -> None:
    work = Turns(Reason.SERVER_ERROR, Reason.TIMEOUT)
    assert Retries(3, 60, Backoff(chance=lambda: 1.0), clock.sleep).run(work) == "ok"
    assert clock.slept == [0.5, 1.0]


def test_tries_are_counted(clock: Clock) -> None:
    work = Turns(*[Reason.SERVER_ERROR] * 9)
    with pytest.raises(ProviderFailed):
        Retries(3, 60, sleep=clock.sleep).run(work)
    assert work.calls == 3
    assert len(clock.slept) == 2


def test_what_waiting_cannot_help_is_not_tried_again(clock: Clock) -> None:
    work = Turns(Reason.BAD_REQUEST)
    with pytest.raises(ProviderFailed, match="bad_request"):
        Retries(3, 60, sleep=clock.sleep).run(work)
    assert (work.calls, clock.slept) == (1, [])


def test_a_wait_beyond_the_budget_is_left_to_the_caller(clock: Clock) -> None:
    work = Turns(Reason.RATE_LIMITED, retry_after=120)
    with pytest.raises(ProviderFailed) as failed:
        Retries(3, 10, sleep=clock.sleep).run(work)
    assert failed.value.retry_after_seconds == 120
    assert clock.slept == []


# --- The breaker ---


def test_it_opens_after_failures_in_a_row(clock: Clock) -> None:
    breaker = Breaker(3, 30, clock=clock)
    fails(breaker)
    fails(breaker)
    breaker.run(ok)
    fails(breaker)
    fails(breaker)
    assert breaker.state == CLOSED
    fails(breaker)
    assert breaker.state == OPEN
    called = Turns()
    with pytest.raises(ProviderFailed) as failed:
        breaker.run(called)
    assert (failed.value.reason, failed.value.retry_after_seconds) == (Reason.CIRCUIT_OPEN, 30)
    assert called.calls == 0


def test_what_does_not_make_it_ill_does_not_open_it(clock: Clock) -> None:
    breaker = Breaker(1, 30, clock=clock)
    for reason in (Reason.GARBAGE, Reason.BAD_REQUEST, Reason.REFUSED):
        fails(breaker, reason)
    assert breaker.state == CLOSED


def test_one_probe_closes_it(clock: Clock) -> None:
    breaker = Breaker(1, 30, clock=clock)
    fails(breaker)
    clock.now += 30
    assert breaker.state == HALF_OPEN
    assert breaker.run(ok) == "ok"
    assert breaker.state == CLOSED


def test_only_one_probe_passes_at_a_time(clock: Clock) -> None:
    breaker = Breaker(1, 30, clock=clock)
    fails(breaker)
    clock.now += 30

    def probe() -> str:
        assert fails(breaker) is Reason.CIRCUIT_OPEN, "other calls are refused during the probe"
        return "ok"

    assert breaker.run(probe) == "ok"


def test_a_failed_probe_opens_it_for_twice_as_long_up_to_a_limit(clock: Clock) -> None:
    breaker = Breaker(1, 30, open_max_seconds=100, clock=clock)
    waits = []
    for _ in range(4):
        fails(breaker)
        with pytest.raises(ProviderFailed) as failed:
            breaker.run(ok)
        waits.append(failed.value.retry_after_seconds)
        clock.now += waits[-1] or 0
    assert waits == [30, 60, 100, 100]
    breaker.run(ok)
    fails(breaker)
    assert fails(breaker) is Reason.CIRCUIT_OPEN
    clock.now += 30
    assert breaker.state == HALF_OPEN, "a success resets the delay"


def test_a_retry_after_opens_it_at_once_for_that_long(clock: Clock) -> None:
    breaker = Breaker(5, 30, clock=clock)
    fails(breaker, Reason.RATE_LIMITED, retry_after=7)
    clock.now += 6.9
    assert breaker.state == OPEN
    clock.now += 0.2
    assert breaker.run(ok) == "ok"


@pytest.mark.parametrize("retry_after", [120, 3600, 1e9])
def test_a_long_retry_after_is_probed_until_a_probe_succeeds(clock: Clock, retry_after: float) -> None:
    breaker = Breaker(5, 30, clock=clock)
    fails(breaker, Reason.RATE_LIMITED, retry_after=retry_after)
    probes = 1
    while clock.now < 1000 + 10 * PROBE_SECONDS:
        assert breaker.state == OPEN
        clock.now += PROBE_SECONDS
        assert breaker.state == HALF_OPEN
        fails(breaker, Reason.RATE_LIMITED, retry_after=retry_after)
        assert fails(breaker) is Reason.CIRCUIT_OPEN, "one probe at a time"
        probes += 1
    assert probes == 11, "one call, and one probe in each interval"
    clock.now += PROBE_SECONDS
    assert breaker.run(ok) == "ok"
    assert breaker.state == CLOSED, "the provider is well before the time that it requested"


def test_work_resumes_within_a_minute_after_a_long_outage(clock: Clock) -> None:
    breaker = Breaker(5, 30, clock=clock)
    for _ in range(50):
        if fails(breaker) is Reason.CIRCUIT_OPEN:
            assert 0 < breaker.open_seconds < 60
            clock.now += breaker.open_seconds


def test_a_probe_that_is_stopped_leaves_the_probe_to_the_next(clock: Clock) -> None:
    breaker = Breaker(1, 30, clock=clock)
    fails(breaker)
    clock.now += 30

    def stopped() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        breaker.run(stopped)
    assert breaker.run(ok) == "ok"
    assert breaker.state == CLOSED


def test_calls_from_before_it_opened_change_nothing(clock: Clock) -> None:
    breaker = Breaker(2, 30, clock=clock)

    def early() -> str:
        fails(breaker)
        fails(breaker)
        return "ok"

    assert breaker.run(early) == "ok"
    assert breaker.state == OPEN, "a late success doesn't close the breaker"

    late = Breaker(1, 30, clock=clock)

    def failing_late() -> str:
        fails(late)
        return failing(Reason.SERVER_ERROR)()

    with pytest.raises(ProviderFailed):
        late.run(failing_late)
    clock.now += 30
    assert late.state == HALF_OPEN, "a late failure doesn't extend the delay"


def test_waiting_out_an_open_breaker_and_probing_go_together(clock: Clock) -> None:
    breaker = Breaker(5, 30, clock=clock)
    work = Turns(Reason.RATE_LIMITED, retry_after=2)
    assert Retries(3, 10, Backoff(chance=lambda: 0.5), clock.sleep).run(lambda: breaker.run(work)) == "ok"
    assert clock.slept == [2.25]
    assert breaker.state == CLOSED


# --- Concurrency ---


def test_no_more_calls_at_once_than_slots() -> None:
    slots = Slots(2)
    lock = threading.Lock()
    inside: list[int] = [0]
    most: list[int] = [0]
    both = threading.Barrier(2)

    def work() -> None:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        both.wait(timeout=PATIENCE_SECONDS)
        with lock:
            inside[0] -= 1

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(slots.run, work, PATIENCE_SECONDS) for _ in range(8)]:
            done.result()
    assert most[0] == 2


def test_a_turn_that_never_comes_is_a_failure_and_frees_nothing() -> None:
    slots = Slots(1)

    def second() -> Reason:
        with pytest.raises(ProviderFailed) as failed:
            slots.run(ok, 0.01)
        return failed.value.reason

    assert slots.run(second, PATIENCE_SECONDS) is Reason.BUSY
    assert slots.run(ok, 0) == "ok"


def test_a_failure_gives_its_turn_back() -> None:
    slots = Slots(1)
    for _ in range(3):
        with pytest.raises(ProviderFailed):
            slots.run(failing(Reason.TIMEOUT), 0)
    assert slots.run(ok, 0) == "ok"
