"""One process that runs the others: start order, restarts, stops, and no leftover processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import psycopg
import pytest
import redis

from app.embedded import EmbeddedError, ProgramSpec, ServerOptions
from app.settings import Settings
from app.supervisor import Child, ChildEvent, EventKind, RestartPolicy, Supervisor, lock_home, service_children
from tests.waiting import PATIENCE_SECONDS, until, until_gone

HASTY = RestartPolicy(first_seconds=0.01, window_seconds=3600)
REPOSITORY = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.kills

# Stub of `python -m app.cli`: writes its settings to a file, then serves, waits or exits like the real one.
STAND_IN = """
import http.server, json, os, pathlib, signal, sys
command = sys.argv[1]
given = {name: value for name, value in os.environ.items() if name.startswith(("EBBING_", "REMAP_"))}
pathlib.Path(os.environ["EBBING_HOME"], f"{'-'.join(sys.argv[1:])}.json").write_text(json.dumps(given))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()
if command == "api":
    http.server.HTTPServer((os.environ["EBBING_HOST"], int(os.environ["EBBING_PORT"])), Ready).serve_forever()
elif command != "migrate":
    signal.pause()
"""

# Minimal `ebbing run`; each event becomes a line of the file given as the last argument.
RUN = """
import json, os, pathlib, sys
from app.embedded import EmbeddedError, ServerOptions
from app.settings import Settings
from app.supervisor import Supervisor, lock_home, service_children
folder, home, events = map(pathlib.Path, sys.argv[1:])
options = ServerOptions(data_root=folder / "data", cache_root=folder / "cache")
def record_event(event):
    with events.open("a") as file:
        file.write(json.dumps([event.what, event.child, event.pid, event.message]) + "\\n")
os.environ["PYTHONPATH"] = str(folder)  # where the children find the stand-in
try:
    with lock_home(home) as home:
        service = service_children(Settings(port=0), home, ["drain", "index"], options)
        sys.exit(Supervisor(service.children, record_event).run())
except EmbeddedError as error:
    sys.exit(str(error))
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short-lived folder with a stub of the service's commands."""
    path = Path(tempfile.mkdtemp(prefix="ebbing-"))
    path.chmod(0o755)
    (path / "app").mkdir()
    (path / "app" / "__init__.py").touch()
    (path / "app" / "cli.py").write_text(STAND_IN)
    (path / "bin").mkdir()  # a separate folder, otherwise the stub would shadow the real `app`
    (path / "bin" / "run.py").write_text(RUN)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def child(folder: Path) -> Callable[..., Child]:
    """Factory for children that run a few lines of Python in `folder`."""

    def make(name: str, script: str, **more: Any) -> Child:
        program = ProgramSpec([sys.executable, "-IS", "-c", textwrap.dedent(script)], os.environ, folder=folder)
        return Child(name, program, folder / "logs" / f"{name}.log", **more)

    return make


def run(children: list[Child], policy: RestartPolicy = HASTY) -> tuple[int, list[ChildEvent]]:
    """Run children until all are up, then stop them."""
    events: list[ChildEvent] = []

    def record_event(event: ChildEvent) -> None:
        events.append(event)
        if event.what == EventKind.UP:
            supervisor.request_stop()

    supervisor = Supervisor(children, record_event, policy)
    return supervisor.run(), events


def events_of(events: list[ChildEvent], *kinds: EventKind) -> list[tuple[str, str]]:
    return [(event.child, event.what.value) for event in events if event.what in kinds]


WAIT = "import signal; signal.pause()"


@pytest.mark.slow
def test_each_child_is_ready_before_the_next_starts_and_all_stop_in_reverse(
    folder: Path, child: Callable[..., Child]
) -> None:
    def announced(name: str) -> Callable[[object], bool]:
        return lambda _process: (folder / f"{name}.ready").exists()

    def announcing(name: str) -> str:
        return f"import pathlib, signal; pathlib.Path('{name}.ready').touch(); signal.pause()"

    children = [
        child("database", announcing("database"), ready=announced("database")),
        child("migrate", "assert open('database.ready')", one_shot=True),
        child("worker-1", WAIT, stage="workers"),
        child("worker-2", WAIT, stage="workers"),
        child("api", announcing("api"), ready=announced("api")),
    ]
    code, events = run(children)
    assert code == 0
    assert events_of(events, EventKind.STARTED, EventKind.READY, EventKind.COMPLETED, EventKind.UP) == [
        ("database", "started"),
        ("database", "ready"),
        ("migrate", "started"),
        ("migrate", "completed"),
        ("worker-1", "started"),
        ("worker-1", "ready"),
        ("worker-2", "started"),
        ("worker-2", "ready"),
        ("api", "started"),
        ("api", "ready"),
        ("", "up"),
    ]
    stops = events_of(events, EventKind.STOPPING, EventKind.STOPPED, EventKind.DOWN)
    assert stops[:2] == [("api", "stopping"), ("api", "stopped")]
    assert stops[2:4] == [("worker-2", "stopping"), ("worker-1", "stopping")]
    assert stops[6:] == [("database", "stopping"), ("database", "stopped"), ("", "down")]
    assert [event.exit_code for event in events if event.what == EventKind.STOPPED] == [-signal.SIGTERM] * 4


def test_the_wait_before_a_restart_doubles_up_to_its_limit_and_five_deaths_in_a_minute_are_too_many() -> None:
    policy = RestartPolicy()
    assert (policy.deaths_max, policy.window_seconds) == (5, 60)
    assert [policy.delay_seconds(deaths) for deaths in range(1, 8)] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


@pytest.mark.slow
def test_a_child_that_dies_is_started_again_later_and_later(folder: Path, child: Callable[..., Child]) -> None:
    script = """
        import pathlib, signal, sys
        lives = pathlib.Path("lives")
        lives.write_text(lives.read_text() + "x" if lives.exists() else "x")
        if len(lives.read_text()) < 4:
            sys.exit(3)
        pathlib.Path("well").touch()
        signal.pause()
    """
    times: dict[EventKind, list[float]] = {EventKind.DIED: [], EventKind.RESTARTED: []}
    events: list[ChildEvent] = []

    def record_event(event: ChildEvent) -> None:
        events.append(event)
        times.get(event.what, []).append(time.monotonic())
        if event.what == EventKind.UP:
            supervisor.request_stop()

    weak = child("weak", script, ready=lambda _process: (folder / "well").exists())
    supervisor = Supervisor([weak], record_event, RestartPolicy(first_seconds=0.05))
    assert supervisor.run() == 0
    waits = [
        restarted - died for died, restarted in zip(times[EventKind.DIED], times[EventKind.RESTARTED], strict=True)
    ]
    assert len(waits) == 3
    assert all(wait >= least for wait, least in zip(waits, (0.05, 0.1, 0.2), strict=True))
    assert [event.message for event in events if event.what == EventKind.DIED] == ["weak ended with exit code 3."] * 3


@pytest.mark.slow
def test_too_many_deaths_before_all_have_started_stop_all(child: Callable[..., Child]) -> None:
    children = [
        child("fine", WAIT),
        child("weak", "raise SystemExit('no such lane: weeding')", ready=lambda _process: False),
    ]
    code, events = run(children)
    assert code == 1
    assert events_of(events, EventKind.DIED) == [("weak", "died")] * 5
    [failure] = [event.message for event in events if event.what == EventKind.FAILED]
    assert "weak died 5 times in 3600 s, last with exit code 1" in failure
    assert failure.endswith("no such lane: weeding")
    assert events_of(events, EventKind.STOPPED, EventKind.DOWN) == [("fine", "stopped"), ("", "down")]


@pytest.mark.slow
def test_a_one_shot_that_fails_stops_all_and_says_why(child: Callable[..., Child]) -> None:
    children = [
        child("database", WAIT),
        child("migrate", "raise SystemExit('revision 7 is unknown')", one_shot=True),
        child("api", WAIT),
    ]
    code, events = run(children)
    assert code == 1
    [failure] = [event.message for event in events if event.what == EventKind.FAILED]
    assert "migrate failed with exit code 1" in failure
    assert "revision 7 is unknown" in failure
    assert events_of(events, EventKind.STARTED) == [("database", "started"), ("migrate", "started")]


@pytest.mark.slow
def test_a_first_start_that_is_never_ready_stops_all(child: Callable[..., Child]) -> None:
    code, events = run([child("api", WAIT, ready=lambda _process: False, ready_timeout_seconds=0.1)])
    assert code == 1
    assert "api isn't ready after 0.1 s" in next(e.message for e in events if e.what == EventKind.FAILED)


@pytest.mark.slow
def test_a_program_that_cannot_be_executed_or_prepared_stops_all(folder: Path) -> None:
    code, events = run([Child("ghost", ProgramSpec(["/no/such/program"], {}), folder / "logs" / "ghost.log")])
    assert code == 1
    assert "/no/such/program can't be executed" in next(e.message for e in events if e.what == EventKind.FAILED)


@pytest.mark.slow
def test_who_does_not_stop_in_time_is_killed_with_all_that_it_started(
    folder: Path, child: Callable[..., Child]
) -> None:
    script = """
        import os, pathlib, signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if other := os.fork():
            pathlib.Path("draft").write_text(str(other))
            os.rename("draft", "other")
        while True:
            signal.pause()
    """
    stubborn = child("stubborn", script, ready=lambda _process: (folder / "other").exists(), stop_timeout_seconds=0.2)
    code, events = run([stubborn])
    assert code == 0
    assert events_of(events, EventKind.KILLED) == [("stubborn", "killed")]
    until_gone(int((folder / "other").read_text()))


@pytest.mark.slow
def test_what_a_dead_child_leaves_behind_is_killed(folder: Path, child: Callable[..., Child]) -> None:
    script = """
        import os, pathlib, signal, sys
        if pathlib.Path("others").exists():
            pathlib.Path("again").touch()
            signal.pause()
        if other := os.fork():
            pathlib.Path("others").write_text(str(other))
            sys.exit(1)
        signal.pause()
    """
    code, _ = run([child("parent", script, ready=lambda _process: (folder / "again").exists())])
    assert code == 0
    until_gone(int((folder / "others").read_text()))


def test_a_home_is_private_and_used_by_one_process_at_a_time(folder: Path) -> None:
    home = folder / "home"
    with lock_home(home) as held:
        assert held == home.resolve()
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        refusal = rf"home .* is in use by process {os.getpid()}: stop it, or set EBBING_HOME"
        with pytest.raises(EmbeddedError, match=refusal), lock_home(home):
            pass
    with lock_home(home):
        pass


@pytest.mark.essential
@pytest.mark.slow
def test_the_whole_service_on_its_own_servers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv("EBBING_OWNER_DATABASE_URL", "postgresql://somebody:else@localhost/elsewhere")
    options = ServerOptions(durable=False, data_root=folder / "data", cache_root=folder / "cache")
    seen: dict[str, Any] = {}
    with lock_home(folder / "home") as home:
        service = service_children(Settings(port=0), home, ["drain"], options)

        def record_event(event: ChildEvent) -> None:
            if event.what == EventKind.UP:
                with psycopg.connect(service.database_url) as tx:
                    seen["role"] = tx.execute(
                        "select rolname, rolsuper, rolbypassrls, rolinherit, rolcreaterole from pg_roles "
                        "where rolname = current_user"
                    ).fetchone()
                with redis.Redis.from_url(service.redis_url) as client:
                    seen["redis"] = client.ping()
                supervisor.request_stop()

        for _ in range(2):  # on the second start everything already exists
            supervisor = Supervisor(service.children, record_event)
            assert supervisor.run() == 0
    assert [one.name for one in service.children] == [
        "preloader",  # which the stub doesn't have, so that all processes are started directly
        "postgres",
        "redis",
        "migrate",
        "worker-drain",
        "beat",
        "api",
    ]
    assert [one.name for one in service.children if one.essential] == ["postgres", "redis"]
    assert seen == {"role": ("ebbing_service", False, False, False, False), "redis": True}
    given = {path.stem: json.loads(path.read_text()) for path in home.glob("*.json")}
    assert given.keys() == {"migrate", "worker---lane-drain", "beat", "api"}
    assert {name for name, one in given.items() if "EBBING_OWNER_DATABASE_URL" in one} == {"migrate"}
    assert given["migrate"]["EBBING_OWNER_DATABASE_URL"] == service.owner_database_url
    assert given["worker---lane-drain"]["REMAP_SIGTERM"] == "SIGQUIT"
    for one in given.values():
        assert one["EBBING_DATABASE_URL"] == service.database_url
        assert one["EBBING_REDIS_URL"] == service.redis_url
        assert one["EBBING_HOME"] == str(home)
        assert one["EBBING_MASTER_KEY"] == (home / "master-key").read_text().strip()
        assert service.api_url == f"http://127.0.0.1:{one['EBBING_PORT']}"
    for secret in ("postgres-password", "redis-password", "service-password", "master-key"):
        assert stat.S_IMODE((home / secret).stat().st_mode) == 0o600


def test_servers_given_by_url_are_not_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EBBING_DATABASE_URL", "postgresql://service@db/ebbing")
    monkeypatch.setenv("EBBING_OWNER_DATABASE_URL", "postgresql://owner@db/ebbing")
    monkeypatch.setenv("EBBING_REDIS_URL", "redis://cache/0")
    service = service_children(Settings(port=0), folder, [])
    assert [one.name for one in service.children] == ["preloader", "migrate", "beat", "api"]
    assert service.owner_database_url == "postgresql://owner@db/ebbing"
    having = [one.name for one in service.children if "EBBING_OWNER_DATABASE_URL" in one.program.environment]
    assert having == ["migrate"]
    assert service.children[1].program.environment["EBBING_DATABASE_URL"] == "postgresql://service@db/ebbing"


def test_a_taken_port_is_said_before_anything_starts(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EmbeddedError, match=rf"127.0.0.1:{port} .*EBBING_PORT"):
            service_children(Settings(port=port), folder, [])


class Run:
    """`RUN` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.events_file = folder / f"events-{token_hex(4)}"
        self.output = folder / "output"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, folder / "bin" / "run.py", folder, folder / "home", self.events_file],
                env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def events(self) -> list[list[Any]]:
        if not self.events_file.exists():
            return []
        return [json.loads(line) for line in self.events_file.read_text().splitlines(keepends=True) if line[-1] == "\n"]

    def wait_for(self, what: EventKind, child: str = "", times: int = 1) -> None:
        until(
            lambda: (
                sum(event[:2] == [what, child] for event in self.events()) >= times or self.process.poll() is not None
            ),
            lambda: f"{what} of {child!r}: {self.events()} {self.output.read_text()}",
        )
        assert self.process.poll() is None, self.output.read_text()

    def pids(self) -> dict[str, int]:
        return {name: pid for what, name, pid, _ in self.events() if what in {EventKind.STARTED, EventKind.RESTARTED}}


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[[], Run]]:
    """Function that starts the service in its own process; the teardown kills it and its children."""
    runs: list[Run] = []

    def start() -> Run:
        runs.append(Run(folder))
        return runs[-1]

    yield start
    for run in runs:
        run.process.kill()
        run.process.wait()
    for run in runs:
        until_gone(*run.pids().values())


@pytest.mark.slow
def test_sigterm_stops_all_and_a_dead_redis_comes_back_before(start: Callable[[], Run]) -> None:
    run = start()
    run.wait_for(EventKind.UP)
    pids = run.pids()
    os.kill(pids["redis"], signal.SIGKILL)
    run.wait_for(EventKind.READY, "redis", times=2)
    second = start_again(run)
    assert second.returncode != 0
    assert f"is in use by process {run.process.pid}" in second.stdout
    run.process.terminate()
    run.process.send_signal(signal.SIGTERM)  # the same request again, as sent by a process group's signal and by make
    assert run.process.wait(PATIENCE_SECONDS) == 0
    stopped = [name for what, name, _, _ in run.events() if what == EventKind.STOPPED and name != "preloader"]
    assert [stopped[0], stopped[1], set(stopped[2:4]), *stopped[4:]] == [
        "api",
        "beat",
        {"worker-drain", "worker-index"},
        "redis",
        "postgres",
    ]
    assert not [event for event in run.events() if event[0] == EventKind.KILLED]
    until_gone(*run.pids().values())


@pytest.mark.slow
def test_a_killed_supervisor_leaves_no_child_and_its_home_starts_again(start: Callable[[], Run]) -> None:
    run = start()
    run.wait_for(EventKind.UP)
    run.process.kill()
    pids = run.pids()
    assert pids.keys() == {"preloader", "postgres", "redis", "migrate", "worker-drain", "worker-index", "beat", "api"}
    run.process.wait(PATIENCE_SECONDS)
    again = start()  # immediately: PostgreSQL may still be writing its data
    again.wait_for(EventKind.UP)
    until_gone(*pids.values())
    assert "database system is shut down" in (run.events_file.parent / "home/logs/postgres.log").read_text()
    assert not [event for event in again.events() if event[0] == EventKind.DIED and event[1] != "preloader"]


@pytest.mark.slow
def test_a_second_signal_kills_at_once(child: Callable[..., Child], folder: Path) -> None:
    """The stop timeout is a day; the alarm that repeats the signal fails the test long before."""
    events: list[ChildEvent] = []
    stubborn = child(
        "stubborn",
        "import pathlib, signal\n"
        "signal.signal(signal.SIGTERM, lambda *_: pathlib.Path('asked').touch())\n"
        "pathlib.Path('up').touch()\n"
        "while True: signal.pause()",
        ready=lambda _process: (folder / "up").exists(),
        stop_timeout_seconds=86_400,
    )

    def record_event(event: ChildEvent) -> None:
        events.append(event)
        if event.what == EventKind.UP:
            os.kill(os.getpid(), signal.SIGINT)
            signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)

    gives_up_at = time.monotonic() + PATIENCE_SECONDS

    def again(*_: object) -> None:
        assert time.monotonic() < gives_up_at, "the second signal killed no process"
        if (folder / "asked").exists():
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGALRM, again)
    try:
        assert Supervisor([stubborn], record_event).run() == 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert events_of(events, EventKind.KILLED) == [("stubborn", "killed")]


def start_again(run: Run) -> subprocess.CompletedProcess[str]:
    """Try to start a second service in the same home, and return its result."""
    folder = run.events_file.parent
    return subprocess.run(
        [sys.executable, folder / "bin" / "run.py", folder, folder / "home", folder / "second"],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
