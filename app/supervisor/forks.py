"""Start processes as forks of a preloaded parent that has imported the service, or directly if none is ready."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from app.embedded import ProgramSpec, has_ended, kill_session, spawn
from app.embedded.process import open_log
from app.supervisor.fork_request import NUMBER_BYTES, READY, ForkRequest, receive

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator
    from pathlib import Path

    from app.embedded import ChildProcess

# -P: don't import from the current directory, which may contain an unrelated `app`.
EBBING: Final = (sys.executable, "-P", "-m", "app.cli")
PARENT: Final = (sys.executable, "-P", "-m", "app.supervisor.preloaded_parent")
FORK_SECONDS: Final = 10.0
POLL_SECONDS: Final = 0.01
_PR_SET_CHILD_SUBREAPER: Final = 36

_libc = ctypes.CDLL(None, use_errno=True)


class ForkedProcess:
    """A child of this process that the preloaded parent forked, with the methods of `subprocess.Popen` that we need."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code if the child has ended, otherwise None."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the child, reap it and return its exit code.

        Raises:
            subprocess.TimeoutExpired: It was still running after `timeout` seconds.
        """
        if timeout is None and self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        began = time.monotonic()
        while (code := self.poll()) is None:
            if timeout is not None and time.monotonic() - began > timeout:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            time.sleep(POLL_SECONDS)
        return code

    def send_signal(self, sig: int, /) -> None:
        """Send a signal; no effect if the child has been reaped."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, sig)


class PreloadedParent:
    """The supervisor's side of the preloaded parent. The processes that it forks become children of this process.

    A parent that doesn't answer a request is killed. Without a parent, processes start directly.
    """

    def __init__(self) -> None:
        self._process: ChildProcess | None = None
        self._control: socket.socket | None = None
        self._is_ready = False
        self._has_loaded = False
        self._has_failed = False

    def start(self, program: ProgramSpec, *, log: Path, death_signal: signal.Signals) -> ChildProcess:
        """Start the parent, as `spawn` does; `program` is `PARENT` with its environment."""
        self._has_failed |= self._process is not None and not self._has_loaded
        self._has_loaded = False
        self.close()
        self._control, theirs = socket.socketpair()
        with theirs:
            command = [*program.command, str(theirs.fileno())]
            self._process = spawn(
                replace(program, command=command), log=log, death_signal=death_signal, inherited=[theirs.fileno()]
            )
        return self._process

    def is_ready(self, _process: ChildProcess) -> bool:
        """Return True if the parent has imported everything."""
        if not self._is_ready and self._control is not None:
            with suppress(OSError):
                self._is_ready = self._has_loaded = self._control.recv(1, socket.MSG_DONTWAIT) == READY
        return self._is_ready

    def is_decided(self) -> bool:
        """Return True if programs can be started now: the parent is ready, isn't running, or failed to load before.

        While the parent loads, waiting for it is faster than a start without it.
        """
        return self._is_ready or self._has_failed or self._process is None or has_ended(self._process)

    def fork(self, program: ProgramSpec, *, log: Path, death_signal: signal.Signals) -> ChildProcess:
        """Start a program whose command begins with `EBBING`, as a fork if the parent is ready, otherwise directly.

        A fork has its own session, log, environment and death signal, as after `spawn`. Call it from the main thread.
        """
        if self._is_ready and self._control is not None and self._process is not None:
            try:
                return self._fork(self._control, program, log, death_signal)
            except OSError:
                kill_session(self._process)
                self.close()
        return spawn(program, log=log, death_signal=death_signal)

    def _fork(
        self, control: socket.socket, program: ProgramSpec, log: Path, death_signal: signal.Signals
    ) -> ForkedProcess:
        request = ForkRequest(
            command=list(program.command),
            arguments=list(program.command[len(EBBING) :]),
            environment=dict(program.environment),
            folder=str(program.folder),
            parent=os.getpid(),
            death_signal=int(death_signal),
        )
        body = msgspec.json.encode(request)
        control.settimeout(FORK_SECONDS)
        # The fork waits at this gate until its pid is known here, so that no process runs unsupervised.
        gate, opener = os.pipe2(os.O_CLOEXEC)
        try:
            with open_log(log) as output, _adopting():
                socket.send_fds(control, [len(body).to_bytes(NUMBER_BYTES)], [output.fileno(), gate])
                control.sendall(body)
                pid = int.from_bytes(receive(control, NUMBER_BYTES))
            if not pid:
                raise OSError("the preloaded parent couldn't fork")
            with suppress(BrokenPipeError):  # it has just died
                os.write(opener, b"!")
        finally:
            os.close(gate)
            os.close(opener)
        return ForkedProcess(pid)

    def close(self) -> None:
        """Close the connection to the parent, which then ends."""
        self._is_ready = False
        if self._control is not None:
            self._control.close()
            self._control = None


@contextmanager
def _adopting() -> Iterator[None]:
    """Make this process a child subreaper within the block.

    The preloaded parent forks through a process that exits at once, so the kernel makes this process the fork's parent.
    """
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
