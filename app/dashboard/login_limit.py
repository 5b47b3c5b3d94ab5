"""Limit failed log-ins by network: an IPv4 address, or the /64 of an IPv6 address, within which a host has any address.

All processes share the counts in Redis. Each process also counts by itself, so that refused log-ins don't reach Redis,
and so that a limit exists while Redis is unavailable.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from threading import Lock
from typing import Final

import structlog

from app.api.http.peer_address import find_network
from app.clients.redis import failed_logins
from app.clients.redis.connection import RedisError
from app.errors import EbbingError

TRIES: Final = 10
"""Maximum failed log-ins per network within `TRIES_SECONDS`."""
TRIES_SECONDS: Final = 60.0
_NETWORKS_MAX: Final = 10_000
_REDIS_RETRY_SECONDS: Final = 5.0
"""Pause after a failure of Redis, so that log-ins don't occupy the threads of the process with waiting for it."""

log = structlog.get_logger(__name__)


class TooManyLogins(EbbingError):
    """Rate limit for failed log-ins."""

    status, type, title = 429, "too-many-log-ins", "Too many failed log-ins"


class LoginFailures:
    """Failed log-ins of the last `TRIES_SECONDS`, by network."""

    def __init__(self, kind: str) -> None:
        """Start without failures in this process.

        Args:
            kind: Fixed word that separates these failures from others in Redis.
        """
        self._kind = kind
        self._lock = Lock()
        self._here: OrderedDict[str, list[float]] = OrderedDict()
        self._redis_from = 0.0

    def record(self, address: str) -> None:
        """Count a failed log-in from an address.

        Raises:
            TooManyLogins: The address's network had `TRIES` recent failures before this one.
        """
        network = find_network(address)
        self._count_here(network, further=1)
        number, seconds = self._count_everywhere(network, further=1)
        if number > TRIES:
            raise _refusal(seconds)

    def check(self, address: str) -> None:
        """Check that a further failure of an address wouldn't be refused.

        Raises:
            TooManyLogins: The address's network has `TRIES` recent failures.
        """
        network = find_network(address)
        self._count_here(network, further=0)
        number, seconds = self._count_everywhere(network, further=0)
        if number >= TRIES:
            raise _refusal(seconds)

    def _count_here(self, network: str, *, further: int) -> None:
        now = time.monotonic()
        with self._lock:
            recent = [moment for moment in self._here.get(network, []) if moment > now - TRIES_SECONDS]
            if len(recent) >= TRIES:
                raise _refusal(TRIES_SECONDS - (now - recent[0]))
            if further:
                self._here[network] = [*recent, now]
                self._here.move_to_end(network)
            while len(self._here) > _NETWORKS_MAX:
                self._here.popitem(last=False)

    def _count_everywhere(self, network: str, *, further: int) -> tuple[int, float]:
        """Return the failures in all processes and the seconds until they expire; zeros while Redis is unavailable."""
        if time.monotonic() < self._redis_from:
            return 0, 0.0
        digest = hashlib.sha256(f"{self._kind} {network}".encode()).hexdigest()
        try:
            return failed_logins.count(digest, TRIES_SECONDS, further=further)
        except RedisError as error:
            self._redis_from = time.monotonic() + _REDIS_RETRY_SECONDS
            log.warning("redis_away", error=type(error).__name__)
            return 0, 0.0


def _refusal(seconds: float) -> TooManyLogins:
    wait = round(seconds) + 1
    return TooManyLogins(f"try again in {wait} s", retry_after_seconds=wait)
