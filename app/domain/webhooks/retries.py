"""Rules of retries: when to send a failed message again, pause calls to a receiver, and disable a webhook."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

MINUTE: Final = 60.0
HOUR: Final = 3600.0

DELAYS_SECONDS: Final = (
    *(5.0, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR),
)
"""Delay after each failed attempt, as the Standard Webhooks specification proposes; the first attempt is at once."""
ATTEMPTS_MAX: Final = len(DELAYS_SECONDS) + 1
JITTER: Final = 0.2
"""A delay is multiplied by a random factor from 1 - JITTER to 1 + JITTER, so that retries don't arrive together."""

REST_SECONDS: Final = 5.0
REST_MAX_SECONDS: Final = 5 * MINUTE

DISABLE_AFTER: Final = timedelta(days=5)
DISABLE_FAILURES: Final = 10
"""Minimum number of failed turns in a row before a webhook is disabled: one failure doesn't prove an outage."""


def delay_seconds(attempts: int, random: float, wait_seconds: float = 0.0) -> float | None:
    """Return the delay before the next attempt; None if there is none left.

    Args:
        attempts: Number of attempts so far, all of which failed; at least 1.
        random: A random number from 0 to 1.
        wait_seconds: Wait that the receiver requests; it can lengthen the delay, and doesn't shorten it.
    """
    if attempts >= ATTEMPTS_MAX:
        return None
    return max(DELAYS_SECONDS[attempts - 1] * _jitter(random), wait_seconds)


def rest_seconds(failures: int, random: float, wait_seconds: float = 0.0) -> float:
    """Return the time for which a receiver isn't called after this many failed turns in a row.

    A failing receiver gets only one message per turn, so that it doesn't delay other receivers, and no message uses up
    its attempts in an outage.

    Args:
        failures: Number of failed turns; 0 if a message was accepted, after which only a requested wait counts.
        random: A random number from 0 to 1.
        wait_seconds: Wait that the receiver requests, of which at most `REST_MAX_SECONDS` count.
    """
    doubled: float = REST_SECONDS * 2 ** min(failures - 1, 16) if failures else 0.0
    return max(min(doubled, REST_MAX_SECONDS) * _jitter(random), min(wait_seconds, REST_MAX_SECONDS))


def must_disable(failures: int, failing_for: timedelta) -> bool:
    """Return True if a receiver has failed for so long that its webhook is disabled."""
    return failures >= DISABLE_FAILURES and failing_for >= DISABLE_AFTER


def _jitter(random: float) -> float:
    return 1 - JITTER + 2 * JITTER * random
