"""Detect processes of a worker's pool that make no progress although their worker sends heartbeats.

The worker checks its pool processes when it sends a heartbeat, and publishes those that are stuck in Redis.
"""

from __future__ import annotations

import socket
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final, cast

import msgspec
import structlog

from app.clients.redis.connection import STUCK, RedisError
from app.clients.redis.stream import backlog, client
from app.domain.health_findings import BLOCKED_SECONDS, SILENT_SECONDS, StuckProcess
from app.domain.ingest.json_input import precompile
from app.settings import settings

HEARD_MS: Final = 15_000
"""Age above which a report is ignored and deleted; the worker repeats it with each heartbeat."""
PROC: Final = Path("/proc")
_STOPPED: Final = frozenset("tT")
_STATE, _USER_TICKS, _SYSTEM_TICKS = 0, 11, 12  # in /proc/PID/stat, after the name

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Activity:
    """Activity of a process according to the kernel.

    Attributes:
        is_stopped: True if a signal or a debugger has stopped the process.
        amount: Processor time used and number of context switches of all threads; constant if none of them has run.
    """

    is_stopped: bool
    amount: int


@precompile
class _Report(msgspec.Struct, array_like=True, frozen=True):
    """A stuck process, with the time of the report in milliseconds since 1970."""

    at_ms: int
    process: StuckProcess


@dataclass(slots=True)
class _Observed:
    task: Hashable
    amount: int
    moved_at: float


def read_activity(pid: int) -> Activity | None:
    """Return the activity of a process; None if it has ended, or the system isn't Linux."""
    folder = PROC / str(pid)
    try:
        fields = (folder / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        amount = int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])
        for thread in (folder / "task").iterdir():
            lines = (thread / "status").read_text(encoding="ascii", errors="replace").splitlines()
            amount += sum(int(line.rpartition("\t")[2]) for line in lines if "_ctxt_switches:" in line)
    except (OSError, ValueError, IndexError):  # a thread may have ended during the read: the next heartbeat reads again
        return None
    return Activity(fields[_STATE] in _STOPPED, amount)


def blocked_after_seconds() -> float:
    """Return the time without any activity after which a task counts as blocked, longer than any call may wait.

    Waiting for a long PostgreSQL statement isn't such a time: the driver wakes up ten times a second.
    """
    config = settings()
    return max(BLOCKED_SECONDS, config.llm_timeout_seconds + 30, config.cold_timeout_seconds + 30)


class PoolWatch:
    """Observes the pool processes of one lane's worker and publishes those that are stuck."""

    def __init__(self, lane: str) -> None:
        self._lane = lane
        self._observed: dict[int, _Observed] = {}
        self._published: set[str] = set()

    def observe(self, tasks: Mapping[int, Hashable | None], now: float) -> list[StuckProcess]:
        """Return the stuck processes.

        Args:
            tasks: The current task of each pool process, by process id; None if it is idle.
            now: Monotonic time in seconds.
        """
        stuck = []
        observed = {}
        for pid, task in tasks.items():
            activity = read_activity(pid)
            if activity is None:
                continue
            before = self._observed.get(pid)
            is_idle = task is None and not activity.is_stopped
            if before is None or is_idle or before.task != task or before.amount != activity.amount:
                observed[pid] = _Observed(task, activity.amount, now)
                continue
            observed[pid] = before
            seconds = now - before.moved_at
            if activity.is_stopped and seconds >= SILENT_SECONDS:
                stuck.append(StuckProcess(self._lane, pid, _host(), "stopped", seconds))
            elif not activity.is_stopped and seconds >= blocked_after_seconds():
                stuck.append(StuckProcess(self._lane, pid, _host(), "blocked", seconds))
        self._observed = observed
        return stuck

    def publish(self, stuck: list[StuckProcess]) -> None:
        """Publish the stuck processes, and withdraw those that have recovered or ended."""
        found = {f"{self._lane}|{one.host}:{one.pid}": one for one in stuck}
        recovered = self._published - found.keys()
        if not found and not recovered:
            return
        try:
            now_ms = backlog().now_ms()
            for name, one in found.items():
                client().hset(STUCK, name, msgspec.json.encode(_Report(now_ms, one)))
            if recovered:
                client().hdel(STUCK, *recovered)
        except RedisError as error:
            log.warning("redis_away", error=type(error).__name__)
            return
        for name in found.keys() - self._published:
            one = found[name]
            log.error("process_stuck", lane=one.lane, pid=one.pid, state=one.state)
        self._published = set(found)


def list_stuck() -> list[StuckProcess]:
    """Return the stuck processes of all workers, those of this host without a host name; delete outdated reports.

    Raises:
        RedisError: Redis is unreachable.
    """
    reports = cast("Mapping[bytes, bytes]", client().hgetall(STUCK))
    if not reports:
        return []
    now_ms = backlog().now_ms()
    found, outdated = [], []
    for name, report in reports.items():
        try:
            at_ms, one = msgspec.structs.astuple(msgspec.json.decode(report, type=_Report))
        except msgspec.DecodeError:
            continue  # written by another version
        if now_ms - at_ms > HEARD_MS:
            outdated.append(name)
        else:
            found.append(replace(one, host="" if one.host == _host() else one.host))
    if outdated:
        client().hdel(STUCK, *outdated)
    return sorted(found, key=lambda one: (one.lane, one.host, one.pid))


@cache
def _host() -> str:
    return socket.gethostname()
