"""Size the turns by which tenants share a stage: short while several tenants have work, large for a single one."""

from __future__ import annotations

from typing import Final

TURN_SECONDS: Final = 0.05
"""Duration of a shared turn.

A memory of another tenant may have to wait for one such turn in the drain, and for one in each stage.
"""
SHARED_SECONDS: Final = 10.0
"""Time for which turns remain short after several tenants last had work.

Otherwise a tenant that sends one memory at a time would wait for another tenant's large turn that started between two
of its memories.
"""
REST_FACTOR: Final = 3
"""Time for which scoring rests after a shared turn while memories wait to become searchable, in durations of the turn.

Search doesn't need the scores, so the stages that it needs get most of the processors.
"""
_WEIGHT: Final = 0.3
"""Weight of the last turn in the estimated speed."""


class TurnSize:
    """The size of one stage's shared turns in this process, from the speed of its turns so far.

    A turn of `n` memories takes a fixed time, plus a time for each memory. Smaller turns are therefore slower per
    memory, and the size settles at the value at which a turn takes `TURN_SECONDS`, as long as the fixed time is shorter
    than that.
    """

    def __init__(self, least: int, first: int) -> None:
        """Start with a size of `first` memories; no size is below `least`."""
        self._least = least
        self._size = float(max(first, least))
        self._shared_at: float | None = None

    @property
    def memories(self) -> int:
        """Maximum number of memories of a shared turn."""
        return int(self._size)

    def record(self, memories: int, seconds: float) -> None:
        """Adapt the size to a turn's duration; turns of fewer than `least` memories say too little and are ignored."""
        if memories < self._least:
            return
        fitting = TURN_SECONDS * memories / max(seconds, 1e-4)
        self._size = max(self._size + _WEIGHT * (min(fitting, 4 * self._size) - self._size), float(self._least))

    def note_sharing(self, now: float) -> None:
        """Record that several tenants have work at this moment of a monotonic clock, in seconds."""
        self._shared_at = now

    def is_shared(self, now: float) -> bool:
        """Return True if several tenants had work within the last `SHARED_SECONDS`."""
        return self._shared_at is not None and now - self._shared_at < SHARED_SECONDS
