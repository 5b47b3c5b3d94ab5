"""The service's real processes, each started as in production and logging to a file of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from app.embedded import Program, has_ended, kill_session, log_tail, spawn
from tests.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).resolve().parents[1]


@dataclass
class Processes:
    """Processes by name. `close` ends them all; if the tests are killed, the kernel does.

    Attributes:
        folder: Where their logs go.
        environment: The settings that all of them have, as `EBBING_*`.
    """

    folder: Path
    environment: Mapping[str, str]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, *arguments: str, **settings: str) -> subprocess.Popen[bytes]:
        """Start `ebbing ARGUMENTS` under a name that isn't running, with further settings."""
        assert name not in self.running, f"{name} is running"
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("EBBING_")}
        command = [sys.executable, "-m", "app.cli", *arguments]
        program = Program(command, {**inherited, **self.environment, **settings}, folder=ROOT)
        self.running[name] = spawn(program, log=self.log(name), death_signal=signal.SIGKILL)
        return self.running[name]

    def log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    def kill(self, *names: str) -> None:
        """Kill at once, with all that a process has started."""
        for name in names:
            process = self.running.pop(name)
            kill_session(process)
            process.wait()

    def stop(self, *names: str) -> None:
        """Ask processes to end, by SIGTERM, and wait until they have."""
        for name in names:
            self.running[name].send_signal(signal.SIGTERM)
        for name in names:
            process = self.running[name]
            until(lambda process=process: has_ended(process), f"{name} ends after SIGTERM")  # type: ignore[misc]
            self.kill(name)

    def signal_all_of(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process and all that it has started."""
        os.killpg(self.running[name].pid, number)

    def wait_until_answers(self, name: str, url: str) -> None:
        """Wait until a GET of the URL answers 200."""
        process = self.running[name]

        def answers() -> bool:
            assert not has_ended(process), f"{name} ended:\n{log_tail(self.log(name))}"
            with suppress(httpx.TransportError):
                return httpx.get(url, timeout=PATIENCE_SECONDS, trust_env=False).status_code == 200
            return False

        until(answers, f"{url} answers 200")

    def close(self) -> None:
        self.kill(*self.running)
