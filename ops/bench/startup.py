"""Resource needs: time until ready, processor time of the start, memory of all processes, bytes per pending memory."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from app.clients.redis.connection import stream_key
from app.embedded import ProgramSpec, free_ports, has_ended, log_tail, spawn
from app.heartbeats import EVERY_SECONDS
from ops.bench import load
from ops.bench.corpus import Corpus
from ops.bench.drain import fill
from ops.bench.figures import Figure, Goal, Plan
from ops.bench.ingest import posts
from ops.bench.place import (
    ROOT,
    Place,
    answers,
    descendants,
    own_mib,
    plain_environment,
    resident_mib,
    spent_seconds,
    stop,
)

LANES = ("ingest", "embed", "rights", "maintain")
READY_SECONDS = 60
API_GOAL, WORKER_GOAL = Goal(most=200), Goal(most=300)


def measure(place: Place, plan: Plan) -> Iterator[Figure]:
    """Measure `ebbing run` with an empty home and again, then the memory of processes started singly, then Redis."""
    yield from _seconds(place, plan)
    if Path("/proc/self/smaps_rollup").exists():
        yield from _memory(place, plan)
    for memories in (1, 100):
        yield _waiting_bytes(place, plan, memories)
    place.empty()


def _seconds(place: Place, plan: Plan) -> Iterator[Figure]:
    cold, warm = [], []
    for turn in range(1 if plan.quick else min(plan.repeats, 3)):
        home = place.home / f"run-{turn}"
        home.mkdir(mode=0o711)  # when root runs this, the servers' own user needs access to its folder
        cold.append(_run(home, plan))
        warm.append(_run(home, plan))
        shutil.rmtree(home)
    yield Figure("`ebbing run` to ready, empty home", "s", [each.seconds for each in cold], goal=Goal(most=8))
    yield Figure("`ebbing run` to ready, warm", "s", [each.seconds for each in warm], goal=Goal(most=5))
    note = "of all its processes, until every lane has sent a heartbeat"
    spent = [each.processor_seconds for each in warm]
    yield Figure("`ebbing run`, warm: processor time of the start", "s", spent, note=note)
    if warm[0].idle_mib:
        for work, values in (("idle", [each.idle_mib for each in warm]), ("at work", [each.busy_mib for each in warm])):
            yield Figure(f"memory of `ebbing run`, {work}: all processes, PSS", "MiB", values, goal=Goal(most=700))


@dataclass(frozen=True)
class Start:
    """One start of the whole service: time until ready, and the memory of all processes before and after some work."""

    seconds: float
    processor_seconds: float
    idle_mib: float
    busy_mib: float


def _run(home: Path, plan: Plan) -> Start:
    """Start the whole service, let it work, and stop it."""
    [port] = free_ports(1)
    command = [sys.executable, "-m", "app.cli", "run", "--home", str(home), "--port", str(port)]
    log = home / "logs" / "run.log"
    started = time.perf_counter()

    def wait(condition: Callable[[], bool]) -> float:
        while not condition():
            took = time.perf_counter() - started
            if has_ended(process) or took > READY_SECONDS:
                raise RuntimeError(
                    f"`ebbing run` wasn't ready after {took:.0f} s; the end of its log:\n{log_tail(log)}"
                )
            time.sleep(0.01)
        return time.perf_counter() - started

    process = spawn(ProgramSpec(command, plain_environment(), folder=ROOT), log=log, death_signal=signal.SIGTERM)
    try:
        seconds = wait(lambda: answers(f"http://127.0.0.1:{port}/readyz"))
        key = (home / "api-key").read_text(encoding="utf-8").strip()
        wait(lambda: _has_all_lanes(port, key))
        spent = spent_seconds((process.pid, *descendants(process.pid)))
        if not Path("/proc/self/smaps_rollup").exists():
            return Start(seconds, spent, 0, 0)
        idle = _service_mib(process.pid)
        with load.Connection("127.0.0.1", port) as connection:
            _use(connection, key, plan)
        return Start(seconds, spent, idle, _service_mib(process.pid))
    finally:
        stop(process)


def _has_all_lanes(port: int, key: str) -> bool:
    """Return True if every lane and beat have sent a heartbeat since the start."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/stats", headers={"Authorization": f"Bearer {key}"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=READY_SECONDS) as answer:
        silent = json.load(answer)["silent_seconds"]
    return all(seconds is not None and seconds < 2 * EVERY_SECONDS for seconds in silent.values())


def _service_mib(pid: int) -> float:
    return sum(map(own_mib, (pid, *descendants(pid))))


def _use(connection: load.Connection, key: str, plan: Plan) -> None:
    """Send memories and searches, one after the other."""
    requests = posts(key, Corpus().bodies(16, 100))
    for turn in range(plan.size(50, 4)):
        connection.ask(requests[turn % len(requests)], status=202)
    for turn in range(plan.size(50, 4)):
        query = b'{"query": "what was said number %d"}' % turn
        headers = [("authorization", f"Bearer {key}")]
        connection.ask(load.request("POST", "/v1/search", query, headers), status=200)


def _memory(place: Place, plan: Plan) -> Iterator[Figure]:
    """Measure resident memory after every process has worked for a while."""
    with place.api() as api, place.workers(*LANES) as workers:
        with load.Connection(api.host, api.port) as connection:
            _use(connection, place.key, plan)
        place.settled(60)
        processes = [api.process.pid, *descendants(api.process.pid)]
        note = "RSS counts shared pages fully in each process, PSS only the process's share"
        rss, pss = max(map(resident_mib, processes)), sum(map(own_mib, processes))
        yield Figure("memory, API: serving process, RSS", "MiB", [rss], goal=API_GOAL, note=note)
        yield Figure(f"memory, API: all {len(processes)} processes, PSS", "MiB", [pss], goal=API_GOAL)
        for lane, process in workers.items():
            each = [resident_mib(pid) for pid in (process.pid, *descendants(process.pid))]
            yield Figure(f"memory, worker {lane}: largest of {len(each)}, RSS", "MiB", [max(each)], goal=WORKER_GOAL)


def _waiting_bytes(place: Place, plan: Plan, memories: int) -> Figure:
    place.empty_stream()
    bodies = Corpus().bodies(plan.size(20_000, 1_000) // memories, memories)
    fill(place.tenant_id, bodies, memories)
    with place.admin() as admin:
        used = admin.memory_usage(stream_key(place.tenant_id), samples=0) or 0
    rows = len(bodies) * memories
    return Figure(
        f"Redis per pending memory, {memories} per request",
        "bytes",
        [used / rows],
        "its share of the body",
        [sum(map(len, bodies)) / rows],
    )
