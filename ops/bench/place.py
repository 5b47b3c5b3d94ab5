"""The environment of a benchmark: its own durable PostgreSQL and Redis on disk, and the service's real processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self
from uuid import UUID

import psycopg
import redis

from app import metrics, queues
from app.clients.redis import stream
from app.clients.redis.connection import (
    BACKLOG,
    COUNTERS,
    HELD,
    NUDGE_PREFIX,
    RING,
    RING_MEMBERS,
    STREAM_PREFIX,
    TURNS,
)
from app.embedded import (
    Postgres,
    ProgramSpec,
    Redis,
    ensure_password,
    free_ports,
    has_ended,
    kill_session,
    log_tail,
    spawn,
)
from app.services.tenants import tenants
from app.settings import settings
from app.store.core import database
from app.store.core.migrate import upgrade
from app.store.core.provision import create_database
from app.store.enrichment import work_queue

ROOT = Path(__file__).resolve().parents[2]
DATABASE, ROLE = "ebbing", "ebbing_service"
READY_SECONDS = 30
STOP_SECONDS = 15
REDIS_BYTES = 2 * 1024**3

# Ingest limits must not restrict the load.
OPEN_DOOR = {
    "EBBING_TENANT_BACKLOG_ENTRIES": "10000000",
    "EBBING_TENANT_BACKLOG_BYTES": str(REDIS_BYTES),
    "EBBING_TENANT_BACKLOG_MEMORIES": "1000000000",
    "EBBING_BACKLOG_ENTRIES": "10000000",
    "EBBING_BACKLOG_BYTES": str(REDIS_BYTES),
    "EBBING_LOG_LEVEL": "error",
    "EBBING_MASTER_KEY": "a benchmark key of the required length",
}

FIRST_TASKS = {lane: task for task, lane in reversed(metrics.LANE_OF_TASK.items())}


@dataclass(frozen=True)
class Running:
    """A process that serves HTTP on a port of 127.0.0.1."""

    process: subprocess.Popen[bytes]
    port: int

    host = "127.0.0.1"

    @property
    def url(self) -> str:
        """Return its URL without a path."""
        return f"http://{self.host}:{self.port}"


class Place:
    """Servers, a migrated database, a tenant with a key. On exit, all processes are stopped and the files removed."""

    def __init__(self) -> None:
        """Start PostgreSQL and Redis, as `ebbing run` does, and set this process's settings to use them."""
        self._open = ExitStack()
        try:
            self._set_up()
        except BaseException:
            self._open.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _set_up(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="ebbing-bench-", dir=os.environ.get("TMPDIR", "/var/tmp")))  # noqa: S108
        self._open.callback(shutil.rmtree, self.home, ignore_errors=True)
        self.home.chmod(0o711)  # when root runs this, the servers' own user needs access to its folder
        postgres_port, redis_port = free_ports(2)
        postgres = Postgres(self.home, postgres_port)
        self.postgres = postgres.start()
        self._open.callback(postgres.stop, self.postgres)
        queue = Redis(self.home, redis_port, maxmemory_bytes=REDIS_BYTES)
        self.redis = queue.start()
        self._open.callback(queue.stop, self.redis)
        self._admin_url = queue.admin_url
        role_password = ensure_password(self.home / "service-password")
        create_database(postgres.url, DATABASE, ROLE, role_password)
        self.owner_url = postgres.database_url(DATABASE)
        upgrade(self.owner_url)
        self.environment = plain_environment() | {
            "EBBING_HOME": str(self.home),
            "EBBING_DATABASE_URL": postgres.database_url(DATABASE, ROLE, role_password),
            "EBBING_REDIS_URL": queue.url,
            **OPEN_DOOR,
        }
        self._open.enter_context(environment(self.environment | {"EBBING_SLICE_SECONDS": "60"}))
        self._open.callback(database.close)
        self._open.callback(stream.close)
        tenant, self.key = tenants.create("bench")
        self.tenant_id: UUID = tenant.tenant_id
        self.owner = self._open.enter_context(psycopg.connect(self.owner_url, autocommit=True))

    @contextmanager
    def api(self, **settings: str) -> Iterator[Running]:
        """Run the real API, as `ebbing api` does."""
        [port] = free_ports(1)
        given = {"EBBING_HOST": "127.0.0.1", "EBBING_PORT": str(port)} | settings
        with self._serving("api", ["-m", "app.cli", "api"], given, port) as running:
            yield running

    @contextmanager
    def bare(self) -> Iterator[Running]:
        """Run the floor's routes under the same server."""
        [port] = free_ports(1)
        with self._serving("bare", ["-m", "ops.bench.floors.bare", str(port)], {}, port) as running:
            yield running

    @contextmanager
    def plain(self) -> Iterator[Running]:
        """Run the plain alternative under the same server."""
        [port] = free_ports(1)
        with self._serving("plain", ["-m", "ops.bench.floors.plain", str(port)], {}, port) as running:
            yield running

    @contextmanager
    def provider(self) -> Iterator[Running]:
        """Run the tests' provider of models in a separate process."""
        [port] = free_ports(1)
        with self._running("provider", ["-m", "tests.provider", "--port", str(port)], {}) as process:
            self._wait(partial(answers, f"http://127.0.0.1:{port}/"), process, "provider")
            yield Running(process, port)

    @contextmanager
    def workers(self, *lanes: str, **settings: str) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
        """Run a real worker for each lane, as `ebbing worker` does, and wait until each has executed a task."""
        with ExitStack() as opened:
            stream.client().delete(COUNTERS)
            running = {
                lane: opened.enter_context(
                    self._running(f"worker-{lane}", ["-m", "app.cli", "worker", "--lane", lane], settings, kill=True)
                )
                for lane in lanes
            }
            for lane in lanes:
                queues.enqueue(FIRST_TASKS[lane])
            for lane, process in running.items():
                self._wait(partial(_has_worked, lane), process, f"worker-{lane}")
            yield running

    @contextmanager
    def beat(self) -> Iterator[None]:
        """Run the real beat, as `ebbing beat` does, whose nudges start what a lost nudge would leave pending."""
        with self._running("beat", ["-m", "app.cli", "beat"], {}):
            yield

    def empty(self) -> None:
        """Delete all memories and the whole backlog, and write a checkpoint."""
        self.empty_stream()
        self.owner.execute(
            "TRUNCATE memories, memory_state, envelopes, tenant_work, memory_words, words, embeddings, "
            "memory_windows, scores, rating_turns, usage, dead_letters, memory_events, links, reviews, tenant_counts, "
            "changes, change_heads"
        )
        self.owner.execute("CHECKPOINT")

    def settled(self, seconds: float, stages: Sequence[str] = work_queue.SEARCHED_BY) -> None:
        """Wait until no memory is pending, neither in the stream nor for one of the stages.

        Raises:
            RuntimeError: Memories are still pending after `seconds`.
        """
        deadline = time.monotonic() + seconds
        while (
            stream.backlog().entries()
            or self.owner.execute("SELECT FROM tenant_work WHERE stage = ANY (%s) LIMIT 1", (list(stages),)).rowcount
        ):
            if time.monotonic() > deadline:
                raise RuntimeError(f"memories are still pending after {seconds:.0f} s")
            time.sleep(0.05)

    def admin(self) -> redis.Redis:
        """Return a client with the operators' rights in Redis: the service's login may not list keys."""
        return redis.Redis.from_url(self._admin_url)

    def empty_stream(self) -> None:
        """Drop the backlog in Redis and its bookkeeping; Celery's own keys remain."""
        with self.admin() as admin:
            streams = admin.scan_iter(f"{STREAM_PREFIX}*", count=1000)
            nudges = admin.scan_iter(f"{NUDGE_PREFIX}*", count=1000)
            admin.unlink(*streams, *nudges, RING, RING_MEMBERS, HELD, TURNS, BACKLOG)

    def hold_back(self, *tasks: str) -> None:
        """Suppress nudges for these tasks for ten minutes, by setting the flag of a nudge in flight."""
        for task in tasks:
            stream.client().set(f"{NUDGE_PREFIX}{task}", "1", px=600_000)

    def _wait(self, condition: Callable[[], object], process: subprocess.Popen[bytes], name: str) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not condition():
            if has_ended(process) or time.monotonic() > deadline:
                end = log_tail(self._log(name))
                raise RuntimeError(f"{name} ended, or wasn't ready after {READY_SECONDS} s; the end of its log:\n{end}")
            time.sleep(0.02)

    def _log(self, name: str) -> Path:
        return self.home / "logs" / f"{name}.log"

    @contextmanager
    def _serving(self, name: str, arguments: list[str], given: Mapping[str, str], port: int) -> Iterator[Running]:
        with self._running(name, arguments, given) as process:
            self._wait(partial(answers, f"http://127.0.0.1:{port}/healthz"), process, name)
            yield Running(process, port)

    @contextmanager
    def _running(
        self, name: str, arguments: list[str], given: Mapping[str, str], *, kill: bool = False
    ) -> Iterator[subprocess.Popen[bytes]]:
        program = ProgramSpec([sys.executable, *arguments], {**self.environment, **given}, folder=ROOT)
        process = spawn(program, log=self._log(name), death_signal=signal.SIGKILL)
        try:
            yield process
        finally:
            if kill:  # a worker would first finish its slice
                kill_session(process)
            stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a process that this module started, by force if needed, with all processes of its session."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        kill_session(process)
        process.wait()


def answers(url: str) -> bool:
    """Return True if a GET returns 200."""
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process in MiB, including pages shared with others."""
    return _kib(Path(f"/proc/{pid}/smaps_rollup"), "Rss:") / 1024


def own_mib(pid: int) -> float:
    """Return the proportional memory (PSS) of a process in MiB, so that processes can be summed."""
    return _kib(Path(f"/proc/{pid}/smaps_rollup"), "Pss:") / 1024


def _kib(numbers: Path, name: str) -> int:
    lines = numbers.read_text(encoding="ascii").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)


def processor_seconds(pids: Iterable[int]) -> dict[int, float]:
    """Return the processor time that processes and their descendants have used so far, by process id."""
    taken = {}
    for pid in (each for parent in pids for each in (parent, *descendants(parent))):
        try:
            told = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        except FileNotFoundError:
            continue  # it has just ended
        taken[pid] = sum(map(int, told.rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")
    return taken


def spent_seconds(pids: Iterable[int]) -> float:
    """Return the processor time of these processes and of the children that they have waited for."""
    ticks = 0
    for pid in pids:
        with suppress(FileNotFoundError):  # it has just ended
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
            ticks += sum(map(int, stat.rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> list[int]:
    """Return the ids of all descendants of a process."""
    children = [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text(encoding="ascii").split()
    ]
    return children + [below for child in children for below in descendants(child)]


def plain_environment() -> dict[str, str]:
    """Return the environment without Ebbing's settings: a benchmark measures the defaults."""
    return {name: value for name, value in os.environ.items() if not name.startswith("EBBING_")}


@contextmanager
def environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Replace the variables of the environment within the block."""
    kept = dict(os.environ)
    os.environ.clear()
    os.environ.update(wanted)
    settings.cache_clear()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)
        settings.cache_clear()


def _has_worked(lane: str) -> bool:
    return metrics.read_worker_metrics().value("tasks", (FIRST_TASKS[lane], lane, "succeeded")) > 0
