"""Whether there is room for another request in Redis."""

from __future__ import annotations

import time

from app.errors import Unavailable

# The door takes no more than this share of Redis's memory, and looks after so long or so much. What is left is for
# what empties the queue: the answers to drains (`drain_bytes` for each process, twice while Lua builds them), the
# broker's messages, the drain's own notes. Celery's workers end when Redis refuses them theirs.
DOOR_SHARE = 0.8
LOOK_SECONDS = 0.25
LOOK_BYTES = 1 << 20


class Room:
    """Whether the door may take more into Redis's memory, which it looks at now and then."""

    def __init__(self) -> None:
        self._looked_at, self._taken_bytes, self._is_full = 0.0, 0, False
        self._shut_until = 0.0

    def is_to_look(self, size: int) -> bool:
        """Whether to look again before so many bytes; of many requests, one is told so."""
        now = time.monotonic()
        self._taken_bytes += size
        if now - self._looked_at < LOOK_SECONDS and self._taken_bytes < LOOK_BYTES:
            return False
        self._looked_at, self._taken_bytes = now, 0
        return True

    def note(self, memory: dict[str, int]) -> None:
        """Note what Redis says of its memory."""
        self._is_full = 0 < memory["maxmemory"] * DOOR_SHARE < memory["used_memory"]

    def shut(self, seconds: float) -> None:
        """Take nothing for so long."""
        self._shut_until = time.monotonic() + seconds

    def is_shut(self) -> bool:
        """Whether it was shut, and still is."""
        return time.monotonic() < self._shut_until

    def check(self) -> None:
        """Refuse what doesn't fit.

        Raises:
            Unavailable: Redis is full.
        """
        if self._is_full:
            raise Unavailable("the queue's memory is full", retry_after_seconds=5)
