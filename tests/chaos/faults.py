"""Begin and end each kind of fault."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from contextlib import suppress
from typing import Any, Final

import psycopg

from tests.chaos.home import ChaosHome
from tests.chaos.plan import BACKEND, INSTANT, LANES, Fault
from tests.chaos.run_service import SERVERS, SERVICE
from tests.faults import family
from tests.provider.server import FakeProvider

SLOW_MILLISECONDS: Final = 150
TERMINATE_SECONDS: Final = 0.2
TRIES: Final = 10
RETRY_SECONDS: Final = 0.2
TERMINATE: Final = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
MODES: Final[dict[str, dict[str, Any]]] = {"rate_limit": {"retry_after": "1"}}


class Faults:
    """Faults on one home and its provider.

    Attributes:
        begun: Number of faults by name.
        missed: Number of faults that met no process, or couldn't be done, by name.
    """

    def __init__(self, home: ChaosHome, provider: FakeProvider) -> None:
        self.home, self._provider = home, provider
        self.begun: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        self._paused: dict[int, int] = {}
        self._active: dict[int, Fault] = {}
        self._terminating = threading.Event()

    def begin(self, fault: Fault) -> None:
        """Begin a fault; kills and stops are over at once."""
        with suppress(OSError):
            if getattr(self, f"_begin_{fault.group}")(fault):
                self.begun[f"{fault.group} {fault.name}"] += 1
                self._active[fault.number] = fault
                return
        self.missed[f"{fault.group} {fault.name}"] += 1

    def end(self, fault: Fault) -> None:
        """End a fault, unless it has been ended early."""
        if self._active.pop(fault.number, None) is not None and fault.group not in INSTANT:
            getattr(self, f"_end_{fault.group}")(fault)

    def end_all(self) -> None:
        """End every fault that has begun."""
        for fault in list(self._active.values()):
            self.end(fault)

    def _pid(self, fault: Fault) -> int | None:
        kind, _, lane = fault.name.rpartition(" ")
        pause = threading.Event()
        for _ in range(TRIES):
            if fault.name == BACKEND:
                main = self.home.pid("postgres")
                backends = family.children(main) if main else []
                pid = backends[fault.choice % len(backends)] if backends else None
            elif lane in LANES:
                pid = self.home.pid(kind, LANES.index(lane) + len(LANES) * fault.choice)
            else:
                pid = self.home.pid(fault.name, fault.choice)
            if pid is not None:
                return pid
            pause.wait(RETRY_SECONDS)
        return None

    def _begin_kill(self, fault: Fault) -> bool:
        if fault.name == "supervisor":
            self._release_servers()
            done = self.home.kill("supervisor", fault.choice)
            self.home.start()
            return done
        pid = self._pid(fault)
        return pid is not None and family.kill(pid, self.home.supervisor_pid())

    def _begin_stop(self, fault: Fault) -> bool:
        if fault.name == "supervisor":
            self._release_servers()
            self.home.stop()
            self.home.start()
            return True
        pid = self._pid(fault)
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
        return pid is not None

    def _release_servers(self) -> None:
        """End pauses, full disks and cut connections to the servers: a start waits until the service is ready."""
        for each in [each for each in self._active.values() if each.group in {"pause", "disk", "net"}]:
            self.end(each)

    def _begin_pause(self, fault: Fault) -> bool:
        pid = self.home.supervisor_pid() if fault.name == "supervisor" else self._pid(fault)
        if pid is None:
            return False
        os.kill(pid, signal.SIGSTOP)
        self._paused[fault.number] = pid
        return True

    def _end_pause(self, fault: Fault) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._paused.pop(fault.number), signal.SIGCONT)

    def _begin_provider(self, fault: Fault) -> bool:
        self._mend_provider()
        self._provider.control.set(mode=fault.name, **MODES.get(fault.name, {}))
        if fault.name == "refuse":
            self._provider.refuse()
        return True

    def _end_provider(self, fault: Fault) -> None:
        if self._provider.control.mode == fault.name:
            self._mend_provider()

    def _mend_provider(self) -> None:
        if self._provider.control.mode == "refuse":
            self._provider.listen()
        self._provider.control.set()

    def _begin_connections(self, _fault: Fault) -> bool:
        self._terminating.set()
        threading.Thread(target=self._terminate, daemon=True).start()
        return True

    def _end_connections(self, _fault: Fault) -> None:
        self._terminating.clear()

    def _terminate(self) -> None:
        pause = threading.Event()
        while self._terminating.is_set():
            with suppress(psycopg.Error), psycopg.connect(self.home.books().database_url, connect_timeout=5) as owner:
                owner.execute(TERMINATE)
            pause.wait(TERMINATE_SECONDS)

    def _begin_net(self, fault: Fault) -> bool:
        what, server = fault.name.split()
        self.home.command_network(server, what)
        return True

    def _end_net(self, fault: Fault) -> None:
        self.home.command_network(fault.name.split()[1], "pass")

    def _begin_disk(self, fault: Fault) -> bool:
        what, disk = fault.name.split()
        if what == "slow":
            self.home.slow_disk(disk, SLOW_MILLISECONDS)
        elif what == "full":
            self.home.fill_disk(disk)
        else:
            self.home.lock_disk(disk)
        return True

    def _end_disk(self, fault: Fault) -> None:
        what, disk = fault.name.split()
        if what == "slow":
            self.home.slow_disk(disk, 0)
        else:
            self.home.free_disk(disk)

    def _begin_clock(self, fault: Fault) -> bool:
        jump, clock = fault.name.split()
        self.home.move_clock(clock, int(jump))
        return True

    def _end_clock(self, fault: Fault) -> None:
        self.home.move_clock(fault.name.split()[1], 0)


CLOCKS: Final = (*SERVERS, SERVICE)
