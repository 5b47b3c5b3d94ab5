"""Define the supervised processes, the restart policy and the events reported about them."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from app.embedded import spawn

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.embedded import ChildProcess, ProgramSpec


class Starter(Protocol):
    """Starts a program as a child of this process, as `spawn` does."""

    def __call__(self, program: ProgramSpec, *, log: Path, death_signal: signal.Signals) -> ChildProcess:
        """Start the program in a session of its own; its output goes to `log`."""


@dataclass(frozen=True)
class Child:
    """A process to supervise.

    `start` starts `program`, after `prepare` and not before `can_start` returns True. `finish` is called once all
    children have stopped. `ready` returns whether the process serves requests; it must neither block for longer
    than a second nor raise. Without it, a child counts as ready at once. A `one_shot` child must exit with code 0
    before the next child starts. The next child doesn't wait for an `optional` one, which isn't started again if it
    dies too often. The service ends if an `essential` child dies too often. Adjacent children with the same `stage`
    are stopped together. `step` is shown to people while the first start lasts, and with it the reason that `explain`
    returns for a process that isn't ready (empty if it is unknown); like `ready`, it doesn't block or raise.
    """

    name: str
    program: ProgramSpec
    log: Path
    death_signal: signal.Signals = signal.SIGKILL
    stop_signal: signal.Signals = signal.SIGTERM
    stop_timeout_seconds: float = 10
    start: Starter = spawn
    can_start: Callable[[], bool] | None = None
    ready: Callable[[ChildProcess], bool] | None = None
    ready_timeout_seconds: float = 120
    explain: Callable[[], str] | None = None
    prepare: Callable[[], None] | None = None
    finish: Callable[[], None] | None = None
    one_shot: bool = False
    optional: bool = False
    essential: bool = False
    stage: str = ""
    step: str = ""


@dataclass(frozen=True)
class RestartPolicy:
    """Delays before a dead child is restarted.

    A child that dies `deaths_max` times within `window_seconds` is failing, until it has lived for `window_seconds`.
    """

    first_seconds: float = 0.2
    longest_seconds: float = 5.0
    failing_longest_seconds: float = 60.0
    deaths_max: int = 5
    window_seconds: float = 60.0

    def delay_seconds(self, deaths: int) -> float:
        """Return the delay before the restart that follows death number `deaths` (1, 2, …) of the window."""
        return float(min(self.longest_seconds, self.first_seconds * 2 ** (deaths - 1)))

    def failing_delay_seconds(self, deaths: int) -> float:
        """Return the delay before the restart that follows death number `deaths` (1, 2, …) of a failing child."""
        doublings = min(deaths, 30)  # a float overflows at a large exponent, and the number of deaths has no limit
        return float(min(self.failing_longest_seconds, self.longest_seconds * 2**doublings))


class EventKind(StrEnum):
    """The kind of an event. `UP`, `FAILED` and `DOWN` concern all children together."""

    STARTING = "starting"  # first start; sent before `prepare`, which may take seconds
    WAITING = "waiting"  # sent every other second until a child of the first start is ready
    STARTED = "started"
    READY = "ready"
    COMPLETED = "completed"  # a one-shot child exited with code 0
    DIED = "died"
    RESTARTED = "restarted"
    FAILING = "failing"  # a child died too often; it is restarted after a longer delay
    GIVEN_UP = "given_up"  # an optional child died too often
    OVERDUE = "overdue"  # a child wasn't ready in time; an optional one is killed, a restarted one continues
    STOPPING = "stopping"
    KILLED = "killed"  # it didn't stop in time, or a second signal arrived
    STOPPED = "stopped"
    UP = "up"
    FAILED = "failed"
    DOWN = "down"


@dataclass(frozen=True)
class ChildEvent:
    """An event about `child` (empty: about all).

    `seconds` counts from its start, or from the start of the shutdown. `exit_code` is negative for a signal, as in
    `subprocess`. `message` consists of complete sentences for people. `reason` of a `WAITING` event is why the child
    isn't ready; it is empty if it is unknown, or hasn't changed since the last event.
    """

    what: EventKind
    child: str = ""
    pid: int | None = None
    exit_code: int | None = None
    seconds: float | None = None
    message: str = ""
    reason: str = ""
