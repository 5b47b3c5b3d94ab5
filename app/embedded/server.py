"""Provide the common parts of the embedded servers: home, folder, port, password, start and stop."""

from __future__ import annotations

import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from app.embedded.binaries import PLAIN_ENVIRONMENT
from app.embedded.data_dirs import ensure_password, prepare_folder
from app.embedded.process import ChildProcess, EmbeddedError, ProgramSpec, has_ended, kill_session, log_tail, spawn

READY_POLL_SECONDS = 0.01


@dataclass(frozen=True)
class ServerOptions:
    """Options of the servers. `durable=False` is for tests: nothing is flushed, and a crash may lose all data.

    Only root uses `data_root` (data of homes that the servers' user can't enter) and `cache_root` (copies of programs
    that it can't reach).
    """

    durable: bool = True
    data_root: Path = Path("/var/lib/ebbing")
    cache_root: Path = Path("/var/cache/ebbing")


DURABLE = ServerOptions()


class Server(ABC):
    """A server of a home. Call `prepare` and spawn `program`, or call `start`, which does both.

    The caller holds the home's lock: two processes must not use a home at the same time.
    """

    name: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]  # requests a clean stop; also the death signal
    ready_timeout_seconds: ClassVar[float]  # long enough for crash recovery
    stop_timeout_seconds: ClassVar[float]
    environment: ClassVar[Mapping[str, str]] = PLAIN_ENVIRONMENT

    def __init__(self, home: Path, port: int, options: ServerOptions = DURABLE) -> None:
        """Create or find this server's folder in `home`, which exists.

        Raises:
            EmbeddedError: The folder can't be created or reached.
        """
        self.home = home.resolve()
        self.port = port
        self.options = options
        self.folder, self.user = prepare_folder(self.home, self.name, options.data_root)

    @property
    def log(self) -> Path:
        """The file that receives the server's output."""
        return self.home / "logs" / f"{self.name}.log"

    @cached_property
    def password(self) -> str:
        """The server's password, from a file of mode 0600 that is created on first use."""
        return ensure_password(self.home / f"{self.name}-password")

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL for clients, including the password."""

    @abstractmethod
    def prepare(self) -> None:
        """Create everything that the server needs to start; safe to call before every start.

        Raises:
            EmbeddedError: With the cause and the remedy.
        """

    @abstractmethod
    def command(self) -> list[str]:
        """Return the program and its arguments, none of which is secret.

        Raises:
            EmbeddedError: There is no such program, or `user` can't run it.
        """

    def program(self) -> ProgramSpec:
        """Return the argument for `spawn`; raises as `command` does."""
        return ProgramSpec(self.command(), self.environment, self.user, self.folder)

    @abstractmethod
    def ready(self, process: ChildProcess) -> bool:
        """Return True if this process accepts clients; doesn't block for longer than a second."""

    def start(self) -> subprocess.Popen[bytes]:
        """Prepare and start the server, and wait until it is ready.

        Raises:
            EmbeddedError: The server ended or wasn't ready in time; includes the last lines of its log.
        """
        self.prepare()
        process = spawn(self.program(), log=self.log, death_signal=self.stop_signal)
        self.wait_ready(process, self.ready_timeout_seconds)
        return process

    def wait_ready(self, process: subprocess.Popen[bytes], timeout_seconds: float) -> None:
        """Wait until the server accepts clients; kill it on timeout.

        Raises:
            EmbeddedError: It ended or wasn't ready in time; includes the last lines of its log.
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
        """Stop the server cleanly, or kill it after `stop_timeout_seconds`. Return the exit code."""
        process.send_signal(self.stop_signal)
        try:
            return process.wait(self.stop_timeout_seconds)
        except subprocess.TimeoutExpired:
            kill_session(process)
            return process.wait()
