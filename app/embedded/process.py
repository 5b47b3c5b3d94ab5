"""Start child processes that end with their parent; every child is started through this module."""

from __future__ import annotations

import ctypes
import errno
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from app.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

LOG_MAX_BYTES = 10 * 1024 * 1024
PORTS = range(20_000, 32_000)  # below Linux's ephemeral port range
PORT_TRIES = 200
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


class EmbeddedError(Misconfigured):
    """A server or child process can't be run here; the message names the cause and the remedy."""


class ChildProcess(Protocol):
    """A child of this process, such as `subprocess.Popen`. `returncode` is None until `wait` has reaped the child."""

    @property
    def pid(self) -> int:
        """Process id, and id of the child's session."""

    @property
    def returncode(self) -> int | None:
        """Exit code, negative for a signal; None if the child hasn't been reaped."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the child, reap it and return its exit code."""

    def send_signal(self, sig: int, /) -> None:
        """Send a signal; no effect if the child has been reaped."""


@dataclass(frozen=True)
class ServerUser:
    """A system user that root's child processes run as."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True)
class ProgramSpec:
    """A program to execute: arguments, the whole environment, the user (for root only) and the working directory."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)  # may hold passwords
    user: ServerUser | None = None
    folder: Path = Path("/")


def spawn(
    program: ProgramSpec, *, log: Path, death_signal: signal.Signals, inherited: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start a program in its own session; the kernel sends it `death_signal` when this process ends.

    Its input is empty. Its output is appended to `log`, which is first renamed to `<log>.1` if it exceeds 10 MiB. Call
    it from the main thread: the kernel sends the signal when the *thread* that started the child ends.

    Args:
        inherited: File descriptors that stay open in the child.

    Raises:
        EmbeddedError: Not the main thread, or the program can't be executed.
    """
    with open_log(log) as output:
        return _popen(program, output, death_signal, inherited)


def run(program: ProgramSpec, timeout_seconds: float = 120) -> tuple[int, str]:
    """Run a short program to its end. Return its exit code and output (both streams).

    Raises:
        EmbeddedError: The program can't be executed, or was still running after `timeout_seconds`.
    """
    with _popen(program, subprocess.PIPE, signal.SIGKILL) as process:
        try:
            output, _ = process.communicate(timeout=timeout_seconds)
        except subprocess.TimeoutExpired as error:
            raise EmbeddedError(f"{program.command[0]} still ran after {timeout_seconds:g} s") from error
        finally:
            kill_session(process)
    return process.returncode, output.decode(errors="replace")


def kill_session(process: ChildProcess) -> None:
    """Kill a child and its whole session; no effect if the child has been reaped.

    An ended child that hasn't been reaped still owns its pid, so no unrelated process can be killed.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def has_ended(process: ChildProcess) -> bool:
    """Return True if a child has ended, without reaping it, so that its session can still be killed by pid."""
    if process.returncode is not None:
        return True
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def free_ports(count: int) -> list[int]:
    """Return `count` different TCP ports on 127.0.0.1 that nothing listens on.

    They are outside the range of outgoing connections, so a restarted child finds its port free.

    Raises:
        EmbeddedError: Not enough free ports were found.
    """
    found: list[int] = []
    with ExitStack() as held:  # bound until all are found, so that none is returned twice
        for port in random.SystemRandom().sample(PORTS, PORT_TRIES):  # independent of a seed shared by processes
            if len(found) == count:
                break
            probe = held.enter_context(socket.socket())
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
    if len(found) < count:
        raise EmbeddedError(f"no {count} free ports on 127.0.0.1 from {PORTS.start} to {PORTS.stop}")
    return found


def log_tail(log: Path, lines: int = 8) -> str:
    """Return the last lines of a log, at most 4 KiB; empty if it doesn't exist."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4096))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def open_log(log: Path) -> BinaryIO:
    """Open a log for appending; rename it to `<log>.1` first if it exceeds 10 MiB."""
    log.parent.mkdir(mode=0o700, exist_ok=True)
    if log.exists() and log.stat().st_size > LOG_MAX_BYTES:
        log.replace(log.with_name(log.name + ".1"))
    return os.fdopen(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab", buffering=0)


def bind_to_parent(parent: int, death_signal: signal.Signals) -> None:
    """Have the kernel send this process `death_signal` when `parent` ends; exit now if `parent` isn't its parent."""
    if sys.platform == "linux":
        if _libc.prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno() or errno.EINVAL, "prctl")
        if os.getppid() != parent:  # the parent ended before prctl
            os._exit(1)


def _popen(
    program: ProgramSpec, output: BinaryIO | int, death_signal: signal.Signals, inherited: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    name, user = program.command[0], program.user
    if threading.current_thread() is not threading.main_thread():
        raise EmbeddedError(f"{name} must be started from the main thread: it dies with its thread")
    try:
        return subprocess.Popen(
            list(program.command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(program.environment),
            cwd=program.folder,
            start_new_session=True,
            user=user.uid if user else None,
            group=user.gid if user else None,
            extra_groups=[] if user else None,
            pass_fds=inherited,
            # The kernel clears the death signal when the user changes; this runs after that change.
            preexec_fn=_bind_to_parent(os.getpid(), death_signal),  # noqa: PLW1509
        )
    except (OSError, subprocess.SubprocessError) as error:
        who = f" as user {user.name}" if user else ""
        raise EmbeddedError(f"{name} can't be executed{who}: {error}") from error


def _bind_to_parent(parent: int, death_signal: signal.Signals) -> Callable[[], None]:
    def in_child() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        bind_to_parent(parent, death_signal)

    return in_child
