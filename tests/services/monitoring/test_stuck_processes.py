"""Processes of a worker that are stopped or hang are reported, though the worker sends heartbeats; others never are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import heartbeats, queues
from app.clients.redis.connection import STUCK
from app.domain.health_findings import Finding, StuckProcess
from app.domain.operator_advice import Installation, advise
from app.services.monitoring import probes, status, stuck_processes
from app.services.monitoring.stuck_processes import Activity, PoolWatch, list_stuck
from tests.processes import Processes
from tests.service import Service
from tests.waiting import until

PID = 4711
HOURS = 3 * 3600


@pytest.fixture
def activity(monkeypatch: pytest.MonkeyPatch) -> dict[int, Activity]:
    """Activity by process id, read instead of the kernel's; tests change it."""
    said = {PID: Activity(is_stopped=False, amount=1)}
    monkeypatch.setattr(stuck_processes, "read_activity", said.get)
    return said


def states(watch: PoolWatch, task: int | None, now: float) -> list[tuple[str, float]]:
    return [(one.state, one.seconds) for one in watch.observe({PID: task}, now)]


def test_an_idle_process_may_sleep_for_hours(service: Service, activity: dict[int, Activity]) -> None:
    watch = PoolWatch("embed")
    assert not any(states(watch, None, now) for now in range(0, HOURS, 2))


def test_a_long_task_that_works_or_waits_for_postgresql_is_no_alarm(
    service: Service, activity: dict[int, Activity]
) -> None:
    watch = PoolWatch("maintain")
    for now in range(0, HOURS, 50):
        activity[PID] = Activity(is_stopped=False, amount=now)
        assert not states(watch, 7, now)


def test_a_process_that_hangs_in_a_task_is_stuck_after_a_minute(
    service: Service, activity: dict[int, Activity]
) -> None:
    service.configure(llm_timeout_seconds=30, cold_timeout_seconds=30)
    watch = PoolWatch("embed")
    assert not any(states(watch, 7, now) for now in range(0, 60, 2))
    assert states(watch, 7, 60) == [("blocked", 60)]
    assert states(watch, 8, 62) == [], "another task shows that it isn't"
    service.configure(llm_timeout_seconds=100)
    assert not states(watch, 8, 191), "a call to a model may take so long"
    assert states(watch, 8, 192) == [("blocked", 130)]


def test_a_stopped_process_is_stuck_with_a_task_and_without(service: Service, activity: dict[int, Activity]) -> None:
    for task in (None, 7):
        watch = PoolWatch("ingest")
        activity[PID] = Activity(is_stopped=False, amount=1)
        states(watch, task, 0)
        activity[PID] = Activity(is_stopped=True, amount=1)
        assert not states(watch, task, 2), "a debugger may stop it for a moment"
        assert states(watch, task, 6) == [("stopped", 6)]
        activity[PID] = Activity(is_stopped=False, amount=2)
        assert not states(watch, task, 8)


def test_the_end_of_a_process_ends_its_report(service: Service, activity: dict[int, Activity]) -> None:
    watch, stuck = PoolWatch("embed"), StuckProcess("embed", PID, "elsewhere", "blocked", 70)
    watch.publish([stuck])
    assert list_stuck() == [stuck]
    assert list(service.redis.hkeys(STUCK)) == [f"embed|elsewhere:{PID}".encode()]
    watch.publish([])
    assert list_stuck() == []
    watch.publish([stuck])
    service.redis.hset(
        STUCK,
        f"embed|elsewhere:{PID}",
        b'[1, {"lane": "embed", "pid": 1, "host": "", "state": "stopped", "seconds": 9}]',
    )
    assert list_stuck() == [], "its worker has died, which the missing heartbeat shows"
    assert not service.redis.exists(STUCK)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_driver_of_postgresql_wakes_up_during_a_long_statement(service: Service) -> None:
    code = "import psycopg, sys; psycopg.connect(sys.argv[1]).execute('SELECT pg_sleep(3600)')"
    hangs = "import threading; threading.Event().wait()"
    waiting = subprocess.Popen([sys.executable, "-c", code, service.database_url])
    hanging = subprocess.Popen([sys.executable, "-c", hangs])

    def amount(process: subprocess.Popen[bytes]) -> int:
        found = stuck_processes.read_activity(process.pid)
        assert found is not None
        return found.amount

    def is_asleep(process: subprocess.Popen[bytes]) -> bool:
        return "S (sleeping)" in Path(f"/proc/{process.pid}/status").read_text()

    try:
        until(lambda: service.rows("SELECT 1 FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(3600)'"), "it waits")
        until(lambda: is_asleep(hanging) and amount(hanging) > 0, "it hangs")
        amounts = []
        for _ in range(10):  # the waiting process is the clock of the hanging one
            before = amount(waiting)
            until(lambda before=before: amount(waiting) > before, "it wakes up")  # type: ignore[misc]
            amounts.append(amount(hanging))
        assert len(set(amounts[5:])) == 1, "the hanging one does nothing, once it has started"
        hanging.send_signal(signal.SIGSTOP)
        until(lambda: (one := stuck_processes.read_activity(hanging.pid)) and one.is_stopped, "it is stopped")
    finally:
        for process in (waiting, hanging):
            process.kill()
            process.wait()
    assert stuck_processes.read_activity(hanging.pid) is None


@pytest.fixture
def worker(service: Service, tmp_path: Path) -> Iterator[int]:
    """The process id of a real worker of the lane `embed` with one process."""
    processes = Processes(
        tmp_path, {"EBBING_DATABASE_URL": service.database_url, "EBBING_REDIS_URL": service.redis_url}
    )
    process = processes.start("worker-embed", "worker", "--lane", "embed", "--concurrency", "1")
    try:
        until(lambda: heartbeats.heartbeat_ages()["embed"] is not None, "its heartbeat")
        yield process.pid
    finally:
        processes.close()


def child_of(pid: int) -> int | None:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(found[0]) if found else None


def embed_finding() -> Finding:
    [found] = [one for one in probes.processes() if one.code == "lane_embed"]
    return found


def reported() -> Finding | None:
    found = embed_finding()
    return None if found.severity == "ok" else found


@pytest.mark.slow
@pytest.mark.kills
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "with a task"])
def test_a_stopped_child_of_a_worker_is_named_with_the_command_that_helps(
    service: Service, worker: int, *, busy: bool
) -> None:
    tenant = service.tenant()
    child = until(lambda: child_of(worker), "its pool process")
    assert embed_finding().severity == "ok"
    os.kill(child, signal.SIGSTOP)
    if busy:
        queues.enqueue(queues.EMBED_MEMORIES)

    found = until(reported, "the stopped process is reported")
    assert f"process {child} of the embed worker has been stopped for" in found.what
    assert heartbeats.heartbeat_ages()["embed"] is not None, "the worker itself lives"
    status.forget()
    shown = status.now(tenant.tenant_id)
    assert (shown.state != "well", shown.stuck_seconds("embed") > 0) == (True, True)
    advised = advise(found, Installation("run", pids={"embed": worker}))
    assert advised.detail.endswith(f"End the process, which the worker replaces at once: `kill -KILL {child}`")
    assert advise(found, Installation("compose")).command == "docker compose restart worker-embed"

    os.kill(child, signal.SIGKILL)
    until(lambda: child_of(worker) not in {None, child}, "its replacement")
    until(lambda: embed_finding().severity == "ok", "the report ends")
