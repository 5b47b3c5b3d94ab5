"""What the two embedded servers share: a home, a folder, a port, a password, a start and a stop."""

from __future__ import annotations

import signal
import subprocess
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from app.embedded.binaries import PLAIN_ENVIRONMENT
from app.embedded.places import secret, settle
from app.embedded.process import EmbeddedError, Program, has_ended, kill_session, log_tail, spawn

READY_POLL_SECONDS = 0.01


@dataclass(frozen=True)
class ServerOptions:
    """How the servers run. `durable=False` is for tests: nothing is flushed, a crash may lose all.

    `data_root` and `cache_root` are used by root only: for data of homes that the servers' user can't
    enter, and for copies of programs that it can't reach.
    """

    durable: bool = True
    data_root: Path = Path("/var/lib/ebbing")
    cache_root: Path = Path("/var/cache/ebbing")


DURABLE = ServerOptions()


class Server(ABC):
    """A server of one home. Call `prepare`, then spawn `program`; or `start`, which does both.

    The caller holds the home's lock: two processes must not use one home at the same time.
    """

    name: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]  # a clean stop; also its death signal
    ready_timeout_seconds: ClassVar[float]  # long enough for the recovery after a crash
    stop_timeout_seconds: ClassVar[float]

    def __init__(self, home: Path, port: int, options: ServerOptions = DURABLE) -> None:
        """Settle the folder of this server in `home`, which exists.

        Raises:
            EmbeddedError: the folder can't be made or reached.
        """
        self.home = home.resolve()
        self.port = port
        self.options = options
        self.folder, self.user = settle(self.home, self.name, options.data_root)

    @property
    def log(self) -> Path:
        """Where the server's output goes."""
        return self.home / "logs" / f"{self.name}.log"

    @cached_property
    def password(self) -> str:
        """The home's password of this server, from a file of mode 0600; made on first use."""
        return secret(self.home / f"{self.name}-password")

    @property
    @abstractmethod
    def url(self) -> str:
        """Where clients connect to, with the password."""

    @abstractmethod
    def prepare(self) -> None:
        """Make whatever the server needs to start. Safe to call before every start.

        Raises:
            EmbeddedError: with the reason and the way out.
        """

    @abstractmethod
    def command(self) -> list[str]:
        """Give the program and its arguments, none of which is a secret.

        Raises:
            EmbeddedError: there is no such program here, or `user` can't run it.
        """

    def program(self) -> Program:
        """Give all that `spawn` needs; raises as `command` does."""
        return Program(self.command(), PLAIN_ENVIRONMENT, self.user, self.folder)

    @abstractmethod
    def ready(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether this very process accepts clients. Doesn't block for longer than a second."""

    def start(self) -> subprocess.Popen[bytes]:
        """Prepare, start and wait until ready.

        Raises:
            EmbeddedError: the server ended or wasn't ready in time, with the last lines of its log.
        """
        self.prepare()
        process = spawn(self.program(), log=self.log, death_signal=self.stop_signal)
        self.wait_ready(process, self.ready_timeout_seconds)
        return process

    def wait_ready(self, process: subprocess.Popen[bytes], timeout_seconds: float) -> None:
        """Wait until the server accepts clients; it is killed if it doesn't in time.

        Raises:
            EmbeddedError: it ended, or wasn't ready in time; with the last lines of its log.
        """
        deadline = time.monotonic() + timeout_seconds
        reason = f"wasn't ready after {timeout_seconds:g} s"
        while time.monotonic() < deadline:
            if has_ended(process):
                reason = f"ended with exit code {process.wait()}"
                break
            if self.ready(process):
                return
            time.sleep(READY_POLL_SECONDS)
        kill_session(process)
        process.wait()
        raise EmbeddedError(f"{self.name} {reason}; the end of {self.log}:\n{log_tail(self.log)}")

    def stop(self, process: subprocess.Popen[bytes]) -> int:
        """Stop cleanly, by force after `stop_timeout_seconds`. Returns the exit code."""
        process.send_signal(self.stop_signal)
        try:
            return process.wait(self.stop_timeout_seconds)
        except subprocess.TimeoutExpired:
            kill_session(process)
            return process.wait()
