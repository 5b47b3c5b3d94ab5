"""The service's real processes, started as in production, each with its own log file."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import httpx

from app.embedded import ChildProcess, ProgramSpec, has_ended, kill_session, log_tail, spawn
from app.supervisor.forks import EBBING, PARENT, PreloadedParent
from tests.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).resolve().parents[1]


@cache
def _preloaded_parent() -> PreloadedParent:
    """Return a parent that has imported the service once for all processes that tests start; it ends with this one."""
    log = Path(tempfile.gettempdir(), f"ebbing-test-parent-{os.getpid()}.log")
    environment = _inherited() | {"REMAP_SIGTERM": "SIGQUIT"}
    parent = PreloadedParent()
    process = parent.start(ProgramSpec(PARENT, environment, folder=ROOT), log=log, death_signal=signal.SIGKILL)
    atexit.register(log.unlink, missing_ok=True)
    atexit.register(parent.close)
    until(lambda: parent.is_ready(process) or has_ended(process), lambda: log_tail(log))
    assert parent.is_ready(process), log_tail(log)
    return parent


def _inherited() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("EBBING_")}


@dataclass
class Processes:
    """Processes by name. `close` ends all of them; if the test run is killed, the kernel does.

    Attributes:
        folder: Folder of the logs.
        environment: Settings shared by all processes, as `EBBING_*`.
    """

    folder: Path
    environment: Mapping[str, str]
    running: dict[str, ChildProcess] = field(default_factory=dict)

    def start(self, name: str, *arguments: str, **settings: str) -> ChildProcess:
        """Start `ebbing ARGUMENTS` with further settings, under a name that isn't in use."""
        assert name not in self.running, f"{name} is running"
        environment = {**_inherited(), **self.environment, **settings}
        program = ProgramSpec([*EBBING, *arguments], environment, folder=ROOT)
        start = _preloaded_parent().fork if sys.platform == "linux" else spawn
        self.running[name] = start(program, log=self.log(name), death_signal=signal.SIGKILL)
        return self.running[name]

    def log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    def kill(self, *names: str) -> None:
        """Kill a process and all its descendants with SIGKILL."""
        for name in names:
            process = self.running.pop(name)
            kill_session(process)
            process.wait()

    def stop(self, *names: str) -> None:
        """Send SIGTERM to processes and wait until they have ended."""
        for name in names:
            self.running[name].send_signal(signal.SIGTERM)
        for name in names:
            process = self.running[name]
            until(lambda process=process: has_ended(process), f"{name} ends after SIGTERM")  # type: ignore[misc]
            self.kill(name)

    def signal_all_of(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process and all its descendants."""
        os.killpg(self.running[name].pid, number)

    def wait_until_answers(self, name: str, url: str) -> None:
        """Wait until a GET of the URL returns 200."""
        process = self.running[name]

        def answers() -> bool:
            assert not has_ended(process), f"{name} ended:\n{log_tail(self.log(name))}"
            with suppress(httpx.TransportError):
                return httpx.get(url, timeout=PATIENCE_SECONDS, trust_env=False).status_code == 200
            return False

        until(answers, f"{url} answers 200")

    def close(self) -> None:
        self.kill(*self.running)
