"""What a supervisor runs and what it tells about it."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from app.embedded import Program


@dataclass(frozen=True)
class Child:
    """One process to run.

    `prepare` is called before each start. `ready` tells whether the process serves; it must neither block
    for longer than a second nor raise; without it a child counts as ready at once. A `one_shot` child runs
    to its end, with exit code 0, before the next one starts. Neighbours of one `stage` are stopped together.
    """

    name: str
    program: Program
    log: Path
    death_signal: signal.Signals = signal.SIGKILL
    stop_signal: signal.Signals = signal.SIGTERM
    stop_timeout_seconds: float = 10
    ready: Callable[[subprocess.Popen[bytes]], bool] | None = None
    ready_timeout_seconds: float = 120
    prepare: Callable[[], None] | None = None
    one_shot: bool = False
    stage: str = ""


@dataclass(frozen=True)
class RestartPolicy:
    """When a child that died is started again, and when it has died too often."""

    first_seconds: float = 0.2
    longest_seconds: float = 5.0
    deaths_max: int = 5
    window_seconds: float = 60.0

    def delay_seconds(self, deaths: int) -> float:
        """Wait before the start that follows death number `deaths` (1, 2, …) of the window."""
        return float(min(self.longest_seconds, self.first_seconds * 2 ** (deaths - 1)))


class What(StrEnum):
    """What happened. `UP`, `FAILED` and `DOWN` are about all children together."""

    STARTED = "started"
    READY = "ready"
    COMPLETED = "completed"  # a one-shot child ended well
    DIED = "died"
    RESTARTED = "restarted"
    OVERDUE = "overdue"  # a restarted child isn't ready in its time; it is left to try
    STOPPING = "stopping"
    KILLED = "killed"  # it didn't stop in its time, or a second signal came
    STOPPED = "stopped"
    UP = "up"
    FAILED = "failed"
    DOWN = "down"


@dataclass(frozen=True)
class Event:
    """Something that happened to `child` (empty: to all). `seconds` since its start, or since the stop began.

    `exit_code` is negative for a signal, as in `subprocess`. `message` is for people, complete sentences.
    """

    what: What
    child: str = ""
    pid: int | None = None
    exit_code: int | None = None
    seconds: float | None = None
    message: str = ""
