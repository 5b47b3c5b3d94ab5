"""Forks of a preloaded parent: their own environment, log and session, and starts without a parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from app.embedded import ChildProcess, ProgramSpec, has_ended, kill_session, log_tail
from app.settings import Settings
from app.supervisor import forks
from app.supervisor.forks import EBBING, ForkedProcess, PreloadedParent
from app.supervisor.service_children import ALLOCATOR, service_children
from tests.waiting import until, until_gone

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.kills, pytest.mark.slow]

# The real parent, with a stub for the program that forks run, and nothing else to import.
STUB = """
import json, os, signal, sys, types
from app.settings import settings
from app.supervisor import preloaded_parent as parent
def run():
    given = {"arguments": sys.argv[1:], "variables": dict(os.environ), "port": settings().port, "folder": os.getcwd()}
    given |= {"rehearsed": rehearsed}
    given |= {"parent": os.getppid(), "session": os.getsid(0), "threads": len(os.listdir("/proc/self/task"))}
    print(json.dumps(given), flush=True)
    if "fail" in sys.argv:
        sys.exit(3)
    signal.pause()
rehearsed, held = [], []
def rehearse():
    rehearsed.append(os.getpid())
    if os.environ.get("LEAVES_OPEN"):
        import socket
        held.append(socket.socket())
sys.modules["app.supervisor.rehearsal"] = types.SimpleNamespace(rehearse_start=rehearse)
sys.modules["app.cli.service.processes"] = types.SimpleNamespace(main=run)
parent.LOADED_LATER = ()
parent.PRELOADED = PRELOADED
parent.main()
"""


def environment(**more: str) -> Mapping[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("EBBING_")}
    return plain | {"PYTHONPATH": str(ROOT), "EBBING_EMBEDDER": "openai", "EBBING_PORT": "8001"} | more


class Parent:
    """A preloaded parent that imports `preloaded`, and the processes started through it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parent = PreloadedParent()
        self.started: list[ChildProcess] = []

    def load(self, *preloaded: str, **variables: str) -> ChildProcess:
        command = [sys.executable, "-c", STUB.replace("PRELOADED\n", f"{preloaded!r}\n")]
        program = ProgramSpec(command, environment(**variables), folder=self.folder)
        process = self.parent.start(program, log=self.log("parent"), death_signal=signal.SIGKILL)
        self.started.append(process)
        return process

    def load_completely(self, **variables: str) -> ChildProcess:
        process = self.load(**variables)
        until(lambda: self.parent.is_ready(process), lambda: log_tail(self.log("parent")))
        return process

    def fork(self, name: str, *arguments: str, **variables: str) -> ChildProcess:
        program = ProgramSpec([*EBBING, *arguments], environment(**variables), folder=self.folder)
        process = self.parent.fork(program, log=self.log(name), death_signal=signal.SIGKILL)
        self.started.append(process)
        return process

    def log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    def printed(self, name: str) -> dict[str, Any]:
        until(lambda: log_tail(self.log(name)).endswith("}"), lambda: log_tail(self.log(name)))
        found: dict[str, Any] = json.loads(self.log(name).read_text())
        return found


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[Parent]:
    made = Parent(tmp_path)
    yield made
    for process in made.started:
        kill_session(process)
        process.wait()
    made.parent.close()


def test_a_fork_has_its_own_arguments_environment_log_and_session(parent: Parent) -> None:
    parent.load_completely()
    first = parent.fork("first", "worker", "--lane", "ingest", EBBING_PORT="8002", ONLY="here")
    second = parent.fork("second", "beat")
    assert isinstance(first, ForkedProcess)
    given = parent.printed("first")
    assert given["arguments"] == ["worker", "--lane", "ingest"]
    assert given["variables"] == environment(EBBING_PORT="8002", ONLY="here")
    assert given["folder"] == str(parent.folder)
    assert (given["port"], parent.printed("second")["port"]) == (8002, 8001)
    assert "ONLY" not in parent.printed("second")["variables"]
    assert (given["parent"], given["session"], given["threads"]) == (os.getpid(), first.pid, 1)
    shown = Path(f"/proc/{second.pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    assert shown == [os.fsencode(word) for word in (*EBBING, "beat")]
    assert log_tail(parent.log("parent")) == ""


def test_the_start_of_a_worker_is_rehearsed_once_before_the_first_of_them(parent: Parent) -> None:
    loaded = parent.load_completely()
    parent.fork("beat", "beat")
    parent.fork("first", "worker", "--lane", "ingest")
    parent.fork("second", "worker", "--lane", "embed")
    assert parent.printed("beat")["rehearsed"] == []
    assert parent.printed("first")["rehearsed"] == parent.printed("second")["rehearsed"] == [loaded.pid]


def test_a_worker_is_started_directly_after_a_rehearsal_that_left_a_connection_open(parent: Parent) -> None:
    parent.load_completely(LEAVES_OPEN="1")
    started = parent.fork("worker", "worker", "--lane", "weeding")
    assert not isinstance(started, ForkedProcess)
    assert "2 sockets are open" in log_tail(parent.log("parent"))
    assert started.wait() == 2


def test_the_end_of_a_fork_is_known_here_and_touches_no_other(parent: Parent) -> None:
    loaded = parent.load_completely()
    killed, other, failed = parent.fork("killed"), parent.fork("other"), parent.fork("failed", "fail")
    parent.printed("killed")
    os.kill(killed.pid, signal.SIGKILL)
    assert (killed.wait(), failed.wait()) == (-signal.SIGKILL, 3)
    killed.send_signal(signal.SIGKILL)  # it has been reaped, and its pid may belong to another process
    assert not has_ended(other)
    assert not has_ended(loaded)
    again = parent.fork("again")
    assert isinstance(again, ForkedProcess)
    assert parent.printed("again")["parent"] == os.getpid()


def test_forks_survive_their_killed_parent_and_the_next_start_needs_none(parent: Parent) -> None:
    loaded = parent.load_completely()
    fork = parent.fork("fork")
    parent.printed("fork")
    os.kill(loaded.pid, signal.SIGKILL)
    until(lambda: has_ended(loaded), "the parent ends")
    assert parent.parent.is_decided()
    direct = parent.fork("direct", "--version")
    assert isinstance(direct, subprocess.Popen)
    assert direct.wait() == 0, log_tail(parent.log("direct"))
    assert not has_ended(fork)
    loaded.wait()
    parent.load_completely()
    assert isinstance(parent.fork("later"), ForkedProcess)


def test_a_parent_that_does_not_answer_is_killed(parent: Parent, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = parent.load_completely()
    os.kill(loaded.pid, signal.SIGSTOP)
    monkeypatch.setattr(forks, "FORK_SECONDS", 0.05)
    direct = parent.fork("direct", "--version")
    assert isinstance(direct, subprocess.Popen)
    assert direct.wait() == 0
    assert loaded.wait() == -signal.SIGKILL


def test_starts_wait_for_a_parent_that_loads_but_not_for_one_that_could_not(parent: Parent) -> None:
    loading = parent.load()
    os.kill(loading.pid, signal.SIGSTOP)
    assert not parent.parent.is_decided()
    os.kill(loading.pid, signal.SIGKILL)
    loading.wait()
    assert parent.parent.is_decided()
    again = parent.load()
    os.kill(again.pid, signal.SIGSTOP)
    assert parent.parent.is_decided(), "it may fail once more"


@pytest.mark.parametrize(
    ("code", "refusal"),
    [
        ("from app.settings import settings; settings()", "has read settings"),
        ("import threading, time; threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()", "2 threads"),
        ("import socket; held = socket.socket()", "2 sockets"),
    ],
)
def test_a_parent_that_cannot_be_forked_safely_ends(parent: Parent, code: str, refusal: str) -> None:
    (parent.folder / "unsafe.py").write_text(code)
    loaded = parent.load("unsafe")
    assert loaded.wait() == 1
    assert refusal in log_tail(parent.log("parent"))
    assert parent.parent.is_decided()


SUPERVISOR = """
import pathlib, signal, sys
from app.embedded import ProgramSpec
from tests.supervisor.test_forks import Parent
parent = Parent(pathlib.Path(sys.argv[1]))
parent.load_completely()
print(parent.fork("fork").pid, flush=True)
signal.pause()
"""


def test_a_fork_and_its_parent_die_with_a_killed_supervisor(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as supervisor:
        assert supervisor.stdout is not None
        fork = int(supervisor.stdout.readline())
        found = Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children").read_text().split()
        supervisor.kill()
        supervisor.wait()
    assert str(fork) in found
    assert len(found) == 2
    until_gone(*map(int, found))


def test_the_allocator_returns_freed_memory_unless_the_operator_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EBBING_DATABASE_URL", "postgresql://service@db/ebbing")
    monkeypatch.setenv("EBBING_REDIS_URL", "redis://cache/0")
    monkeypatch.setenv("MALLOC_ARENA_MAX", "4")
    service = service_children(Settings(port=0), tmp_path, ["ingest"])
    for one in service.children:
        if one.name in {"preloader", "worker-ingest", "beat", "api"}:
            found = {name: value for name, value in one.program.environment.items() if name.startswith("MALLOC_")}
            assert found == {**ALLOCATOR, "MALLOC_ARENA_MAX": "4"}
