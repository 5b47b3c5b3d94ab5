"""Start, watch and stop the children of one service, in order."""

from __future__ import annotations

import itertools
import os
import select
import signal
import time
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from app.embedded import has_ended, kill_session
from app.errors import Misconfigured
from app.supervisor.child import Child, ChildEvent, EventKind, RestartPolicy
from app.supervisor.event_log import format_end, last_lines, record_event
from app.system.running_home import PREVIOUS_END

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

    from app.embedded import ChildProcess, ProgramSpec

BUSY_SECONDS = 0.02  # polling interval while a child is starting or stopping
QUIET_SECONDS = 1.0  # polling interval otherwise; the death of a child interrupts it
WAITING_SECONDS = 2.0  # interval of the `WAITING` events for a child that isn't ready yet
# Signals within this time count as one stop request, because one request may arrive twice: Ctrl-C and service managers
# signal the whole process group, and `make` also forwards the signal that it receives.
SAME_WISH_SECONDS = 0.5


class _GaveUpError(Exception):
    """All children must stop; the message says why."""


@dataclass
class _Running:
    child: Child
    process: ChildProcess | None = None
    started_at: float = 0
    start_at: float = 0
    starts: int = 0
    ready: bool = False
    overdue: bool = False
    completed: bool = False
    deaths: deque[float] = field(default_factory=deque)
    failing_deaths: int = 0
    exit_code: int = 0


class Supervisor:
    """Run children in order: each must be ready before the next starts, unless it is optional; stop in reverse order.

    A child that dies is restarted after 0.2 s; each further death within a minute doubles the delay. From the fifth
    death within a minute on, the child is failing, until it has lived for a minute. A failing optional child isn't
    restarted. Any other failing child stops all children if it is essential, or if not all children have started yet;
    otherwise its delay doubles from 10 s to at most a minute, and the other children continue. All children also stop
    if a one-shot child fails, or if a child other than an optional one isn't ready in time at its first start. SIGINT,
    SIGTERM, SIGHUP and end of file on `lifeline` stop all children; a second signal kills them at once. `lifeline` is a
    file descriptor, such as that of a pipe from the program that started the service.
    """

    def __init__(
        self,
        children: Sequence[Child],
        on_event: Callable[[ChildEvent], None],
        policy: RestartPolicy | None = None,
        lifeline: int | None = None,
    ) -> None:
        self._lifelines = [] if lifeline is None else [lifeline]
        self._children = children
        self._on_event = on_event
        self._policy = policy or RestartPolicy()
        self._running: list[_Running] = []
        self._is_up = False
        self._wishes = 0
        self._wished_at = 0.0
        self._wake_out, self._wake_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> int:
        """Run until a signal or `request_stop`. Return 0, or 1 if something failed (see `EventKind.FAILED`).

        Call it once, from the main thread.
        """
        code = 0
        with self._signals():
            try:
                self._start_all()
                self._watch()
            except (_GaveUpError, Misconfigured) as error:
                code = 1
                self._on_event(ChildEvent(EventKind.FAILED, message=str(error)))
            finally:
                self._stop_all()
        return code

    def request_stop(self) -> None:
        """Request a stop of all children, as SIGTERM does; callable from any thread."""
        now = time.monotonic()
        if not self._wishes or now - self._wished_at > SAME_WISH_SECONDS:
            self._wishes += 1
            self._wished_at = now
        with suppress(BlockingIOError):  # a full pipe wakes the loop anyway
            os.write(self._wake_in, b"!")

    def _start_all(self) -> None:
        for child in self._children:
            running = _Running(child)
            self._running.append(running)
            self._on_event(ChildEvent(EventKind.STARTING, child.name, message=child.step))
            self._check_children()
            began, told_reason = time.monotonic(), ""
            told_at = began
            while not (running.ready or running.completed or child.optional or self._wishes):
                self._pause(BUSY_SECONDS)
                self._check_children()
                if (now := time.monotonic()) - told_at >= WAITING_SECONDS:
                    told_at, reason = now, child.explain() if child.explain else ""
                    event = ChildEvent(EventKind.WAITING, child.name, seconds=now - began, message=child.step)
                    self._on_event(replace(event, reason="" if reason == told_reason else reason))
                    told_reason = reason
            if self._wishes:
                return
        self._is_up = True
        self._on_event(ChildEvent(EventKind.UP))

    def _watch(self) -> None:
        while not self._wishes:
            self._check_children()
            quiet = all(running.ready or running.completed for running in self._running)
            self._pause(QUIET_SECONDS if quiet else BUSY_SECONDS)

    def _check_children(self) -> None:
        for running in self._running:
            if running.completed:
                continue
            if running.process is None:
                can_start = running.child.can_start
                if time.monotonic() >= running.start_at and (can_start is None or can_start()):
                    self._spawn(running)
            elif has_ended(running.process):
                self._handle_death(running, running.process)
            elif not running.ready and not running.child.one_shot:
                self._ask_ready(running, running.process)

    def _spawn(self, running: _Running) -> None:
        child = running.child
        if child.prepare:
            child.prepare()
        running.process = child.start(_mark_restart(running), log=child.log, death_signal=child.death_signal)
        running.started_at = time.monotonic()
        running.starts += 1
        running.ready = running.overdue = False
        self._emit(running, EventKind.STARTED if running.starts == 1 else EventKind.RESTARTED)
        if not child.one_shot:
            self._ask_ready(running, running.process)

    def _ask_ready(self, running: _Running, process: ChildProcess) -> None:
        child = running.child
        if child.ready is None or child.ready(process):
            running.ready = True
            self._emit(running, EventKind.READY)
        elif not running.overdue and time.monotonic() - running.started_at > child.ready_timeout_seconds:
            late = f"{child.name} isn't ready after {child.ready_timeout_seconds:g} s"
            if child.optional:
                kill_session(process)
            elif running.starts == 1:
                raise _GaveUpError(f"{late}{_log_end(child)}")
            # A restarted child isn't killed unless it is optional: it may work in part, and may become ready once its
            # dependencies recover.
            running.overdue = True
            self._emit(running, EventKind.OVERDUE, message=f"{late}.")

    def _handle_death(self, running: _Running, process: ChildProcess) -> None:
        child = running.child
        kill_session(process)  # kill processes that it left behind
        code = process.wait()
        if child.one_shot:
            if code != 0:
                record_event(child, ChildEvent(EventKind.DIED, child.name, process.pid, code))
                running.process = None
                raise _GaveUpError(f"{child.name} failed with {format_end(code)}{_log_end(child)}")
            running.completed = True
            self._emit(running, EventKind.COMPLETED, code)
            return
        running.exit_code = code
        self._emit(running, EventKind.DIED, code, f"{child.name} ended with {format_end(code)}.")
        running.process = None
        running.ready = False
        now = time.monotonic()
        running.deaths.append(now)
        while now - running.deaths[0] > self._policy.window_seconds:
            running.deaths.popleft()
        if now - running.started_at >= self._policy.window_seconds:
            running.failing_deaths = 0
        if running.failing_deaths or len(running.deaths) >= self._policy.deaths_max:
            self._handle_failing(running, code, now)
        else:
            running.start_at = now + self._policy.delay_seconds(len(running.deaths))

    def _handle_failing(self, running: _Running, code: int, now: float) -> None:
        """Give the child up, stop all, or delay its restart, after it has died too often."""
        child = running.child
        often = f"{child.name} died {self._policy.deaths_max} times in {self._policy.window_seconds:g} s"
        if child.optional:
            running.completed = True
            self._emit(running, EventKind.GIVEN_UP, code, f"{often} and isn't started again; see {child.log}.")
            return
        reason = f"{often}, last with {format_end(code)}{_log_end(child)}"
        if child.essential or not self._is_up:
            raise _GaveUpError(reason)
        running.failing_deaths += 1
        delay = self._policy.failing_delay_seconds(running.failing_deaths)
        running.start_at = now + delay
        todo = f"{child.name} is started again in {delay:g} s; the other processes continue."
        self._emit(running, EventKind.FAILING, code, f"{reason}\n{todo}" if running.failing_deaths == 1 else todo)

    def _stop_all(self) -> None:
        began = time.monotonic()
        patience = min(self._wishes, 1)
        alive = [running for running in reversed(self._running) if running.process and not running.completed]
        for _, stage in itertools.groupby(alive, key=lambda running: running.child.stage or running.child.name):
            self._stop_together(list(stage), patience)
        for child in self._children:
            if child.finish:
                child.finish()
        self._on_event(ChildEvent(EventKind.DOWN, seconds=time.monotonic() - began))

    def _stop_together(self, stage: list[_Running], patience: int) -> None:
        began = time.monotonic()
        waiting = [(running, running.process) for running in stage if running.process]
        for running, process in waiting:
            if not has_ended(process):
                self._emit(running, EventKind.STOPPING)
                process.send_signal(running.child.stop_signal)
        killed: set[int] = set()
        while waiting:
            for running, process in waiting.copy():
                if has_ended(process):
                    kill_session(process)
                    waiting.remove((running, process))
                    running.process = None
                    running.started_at = began
                    self._emit(running, EventKind.STOPPED, process.wait(), pid=process.pid)
                elif process.pid not in killed and (
                    self._wishes > patience or time.monotonic() - began > running.child.stop_timeout_seconds
                ):
                    killed.add(process.pid)
                    kill_session(process)
                    self._emit(running, EventKind.KILLED)
            if waiting:
                self._pause(BUSY_SECONDS)

    def _emit(
        self,
        running: _Running,
        what: EventKind,
        exit_code: int | None = None,
        message: str = "",
        pid: int | None = None,
    ) -> None:
        seconds = time.monotonic() - running.started_at
        pid = running.process.pid if running.process else pid
        event = ChildEvent(what, running.child.name, pid, exit_code, seconds, message)
        record_event(running.child, event)
        self._on_event(event)

    def _pause(self, seconds: float) -> None:
        """Wait until the timeout, a signal or the death of a child."""
        ready, _, _ = select.select([self._wake_out, *self._lifelines], [], [], seconds)
        if self._wake_out not in ready and ready and not os.read(ready[0], 512):
            self._lifelines.clear()
            self.request_stop()
        with suppress(BlockingIOError):
            while os.read(self._wake_out, 512):
                pass

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(_number: int, _frame: FrameType | None) -> None:
            self.request_stop()

        def wake(_number: int, _frame: FrameType | None) -> None:
            """Do nothing: the wake-up pipe receives the signal."""

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, wake)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # SIGHUP is ignored under nohup
            before[signal.SIGHUP] = signal.signal(signal.SIGHUP, stop)
        pipe = signal.set_wakeup_fd(self._wake_in, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(pipe)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(self._wake_in)
            os.close(self._wake_out)


def _mark_restart(running: _Running) -> ProgramSpec:
    """Return the program. If the child's previous process failed, the environment says how that process ended."""
    program = running.child.program
    if not running.exit_code:
        return program
    return replace(program, environment={**program.environment, PREVIOUS_END: format_end(running.exit_code)})


def _log_end(child: Child) -> str:
    lines = last_lines(child.log)
    return f"; the end of {child.log}:\n{lines}" if lines else f"; it wrote nothing to {child.log}"
