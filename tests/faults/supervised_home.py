"""A home run by a supervisor, as `ebbing run` does it, and the pids of its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import httpx
import msgspec

from app.embedded import ProgramSpec, free_ports, has_ended, kill_session, log_tail, spawn
from app.supervisor import EventKind
from tests.faults import family
from tests.faults.conservation import Books
from tests.faults.run_service import Line
from tests.processes import ROOT
from tests.waiting import PATIENCE_SECONDS, until

LANES = ("ingest", "embed", "score", "rights", "maintain")
TARGETS = (
    "supervisor",
    "preloader",
    "api main",
    "api worker",
    "celery main",
    "celery child",
    "beat",
    "redis",
    "postgres",
)


class Household:
    """The whole service of one home, with its own settings; `program` is the module that runs the supervisor."""

    program = "tests.faults.run_service"

    def __init__(self, home: Path, settings: dict[str, str]) -> None:
        """Choose paths and a port without starting anything."""
        self.home = home
        self._settings = settings
        self._events = home / "events.jsonl"
        [self._port] = free_ports(1)
        self.url = f"http://127.0.0.1:{self._port}"
        self.supervisor: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def start(self) -> None:
        """Start the supervisor and wait until everything is up; retry if it exits, as a service manager would."""
        for _ in range(10):
            inherited = {name: value for name, value in os.environ.items() if not name.startswith("EBBING_")}
            command = [sys.executable, "-m", self.program, str(self.home), str(self._port)]
            program = ProgramSpec([*command, str(self._events)], inherited | self._settings, folder=ROOT)
            self.supervisor = spawn(program, log=self._log, death_signal=signal.SIGKILL)
            self.starts += 1
            until(lambda: self._is_up() or self._has_ended(), lambda: f"all is up; {log_tail(self._log)}")
            if not self._has_ended():
                return
            self.supervisor.wait()
        raise AssertionError(f"the supervisor doesn't start:\n{log_tail(self._log)}")

    def stop(self) -> None:
        """Stop everything, gracefully if possible."""
        if self.supervisor is None or self.supervisor.returncode is not None:
            return
        self.supervisor.send_signal(signal.SIGTERM)
        with suppress(AssertionError):
            until(self._has_ended, "the supervisor ends")
        kill_session(self.supervisor)
        self.supervisor.wait()

    def books(self) -> Books:
        """Return access to the servers that are running now."""
        urls = [line for line in self._lines() if line.event is None][-1]
        return Books(urls.owner_url, urls.redis_url)

    def kill(self, target: str, choice: int) -> bool:
        """Kill one of `TARGETS` (`choice` selects among several processes); return false if it isn't running."""
        if self.supervisor is None or self._has_ended():
            return False
        if target == "supervisor":
            self.supervisor.kill()
            self.supervisor.wait()
            return True
        pid = self.pid(target, choice)
        return pid is not None and family.kill(pid, self.supervisor.pid)

    def is_well(self) -> bool:
        """Return true if `/readyz` reports the API and its dependencies as ready."""
        with suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/readyz", timeout=PATIENCE_SECONDS, trust_env=False).status_code == 200
        return False

    def overdue(self) -> int:
        """Count the restarts of a child that wasn't ready in time."""
        return sum(line.event is not None and line.event.what == EventKind.OVERDUE for line in self._lines())

    @property
    def _log(self) -> Path:
        return self.home / "supervisor.log"

    def _has_ended(self) -> bool:
        return self.supervisor is None or has_ended(self.supervisor)

    def _is_up(self) -> bool:
        return any(line.event is not None and line.event.what == EventKind.UP for line in self._own_lines())

    def pid(self, target: str, choice: int = 0) -> int | None:
        """Return the process of one of `TARGETS`, or None if it isn't running."""
        kind, _, part = target.partition(" ")
        name = f"worker-{LANES[choice % len(LANES)]}" if kind == "celery" else kind
        main = self.mains().get(name)
        if main is None or part not in {"worker", "child"}:
            return main
        found = family.children(main)
        return found[choice % len(found)] if found else None

    def supervisor_pid(self) -> int:
        """Return the pid of the supervisor, which must have been started."""
        assert self.supervisor is not None
        return self.supervisor.pid

    def is_ready(self, child: str) -> bool:
        """Return true if the running process of this child has become ready."""
        last = [line.event for line in self._own_lines() if line.event is not None and line.event.child == child][-1]
        return last.what == EventKind.READY

    def mains(self) -> dict[str, int]:
        """Return the process of each running child of the supervisor, by name."""
        mains: dict[str, int] = {}
        for event in (line.event for line in self._own_lines()):
            if event is not None and event.pid is not None:
                if event.what in {EventKind.STARTED, EventKind.RESTARTED}:
                    mains[event.child] = event.pid
                elif event.what in {EventKind.DIED, EventKind.COMPLETED}:
                    mains.pop(event.child, None)
        return mains

    def _own_lines(self) -> list[Line]:
        own = self.supervisor.pid if self.supervisor else 0
        return [line for line in self._lines() if line.supervisor == own]

    def _lines(self) -> list[Line]:
        if not self._events.exists():
            return []
        # The last line may be half written.
        return [msgspec.json.decode(line, type=Line) for line in self._events.read_bytes().split(b"\n")[:-1]]
