"""Guard Redis's memory: refuse ingest requests before Redis is full."""

from __future__ import annotations

import time

from app.errors import Unavailable

# Ingest uses at most this share of Redis's memory; usage is checked again every 250 ms or every MiB accepted. The rest
# is reserved for draining the backlog: replies to drains (`drain_bytes` per process, twice that while Lua runs), the
# broker's messages, and the drain's own records. Celery workers exit if Redis refuses their messages.
DOOR_SHARE = 0.8
LOOK_SECONDS = 0.25
LOOK_BYTES = 1 << 20


class MemoryGuard:
    """Decides whether ingest may use more of Redis's memory, based on periodic checks."""

    def __init__(self) -> None:
        self._looked_at, self._taken_bytes, self._is_full = 0.0, 0, False
        self._shut_until = 0.0

    def is_to_look(self, size: int) -> bool:
        """Count the bytes of a request and return true if this request must check memory usage first."""
        now = time.monotonic()
        self._taken_bytes += size
        if now - self._looked_at < LOOK_SECONDS and self._taken_bytes < LOOK_BYTES:
            return False
        self._looked_at, self._taken_bytes = now, 0
        return True

    def record_usage(self, memory: dict[str, int]) -> None:
        """Record the memory usage reported by Redis."""
        self._is_full = 0 < memory["maxmemory"] * DOOR_SHARE < memory["used_memory"]

    def refuse_for(self, seconds: float) -> None:
        """Refuse all requests for this long."""
        self._shut_until = time.monotonic() + seconds

    def is_shut(self) -> bool:
        """Return true while `refuse_for` applies."""
        return time.monotonic() < self._shut_until

    def check(self) -> None:
        """Refuse the request if Redis is full.

        Raises:
            Unavailable: Redis is full.
        """
        if self._is_full:
            raise Unavailable("the queue's memory is full", retry_after_seconds=5)
