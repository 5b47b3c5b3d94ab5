"""Heartbeats and starts of beat and each lane's workers, stored in Redis with the clock of Redis.

A process that stops on request marks the record of its start. If the previous record of the same source and host has no
such mark, that process died, and the new start is its restart, by `ebbing run`, Docker, Kubernetes or systemd.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, replace
from typing import Final, cast

import structlog

from app import queues
from app.clients.redis.connection import HEARTBEATS, STARTS, RedisError
from app.clients.redis.stream import backlog, client
from app.domain.durations import HOUR
from app.domain.health_findings import Restarts
from app.system.running_home import PREVIOUS_END

BEAT: Final = "beat"
SOURCES: Final = (*queues.LANES, BEAT)
EVERY_SECONDS: Final = 2.0
STARTS_KEPT: Final = 1000

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Start:
    """A start of a process.

    Attributes:
        after: How the previous process ended, as reported by the supervisor; empty if it reported nothing.
        is_stopped: True if this process was stopped as requested.
    """

    source: str
    host: str
    pid: int
    at_ms: int
    after: str = ""
    is_stopped: bool = False

    def encode(self) -> str:
        """Return the start as a member of the sorted set; earlier versions ignore what follows the process id."""
        process = f"{self.pid},{self.after},{'stopped' if self.is_stopped else ''}"
        return f"{self.source}|{self.host}|{process}|{self.at_ms}"

    @classmethod
    def decode(cls, stored: str) -> _Start:
        """Return the start that is stored as this member, which an earlier version may have written."""
        source, host, process, at_ms = stored.split("|")
        pid, after, state = [*process.split(","), "", ""][:3]
        return cls(source, host, int(pid), int(at_ms), after, state == "stopped")


def record_heartbeat(source: str) -> None:
    """Record a heartbeat. Redis failures are logged, not raised, because the next heartbeat follows soon."""
    try:
        client().hset(HEARTBEATS, mapping={source: backlog().now_ms(), f"{source}:pid": os.getpid()})
    except RedisError as error:
        log.warning("redis_away", error=type(error).__name__)


def heartbeat_ages() -> dict[str, float | None]:
    """Return the seconds since the last heartbeat of each source; None if there was none.

    Raises:
        RedisError: Redis is unreachable.
    """
    now = backlog().now_ms()
    heard = client().hmget(HEARTBEATS, list(SOURCES))
    return {
        source: None if moment is None else max(now - int(moment), 0) / 1000
        for source, moment in zip(SOURCES, heard, strict=True)
    }


def process_ids() -> dict[str, int]:
    """Return the process id that sent each source's last heartbeat; sources of earlier versions are omitted.

    Raises:
        RedisError: Redis is unreachable.
    """
    pids = client().hmget(HEARTBEATS, [f"{source}:pid" for source in SOURCES])
    return {source: int(pid) for source, pid in zip(SOURCES, pids, strict=True) if pid is not None}


def record_start(source: str) -> str:
    """Record that a process of this source has started, and return the start's id, for `record_stop`."""
    start = ""
    try:
        now = backlog().now_ms()
        start = _Start(source, socket.gethostname(), os.getpid(), now, os.environ.get(PREVIOUS_END, "")).encode()
        with client().pipeline(transaction=False) as pipe:
            pipe.zadd(STARTS, {start: now})
            pipe.zremrangebyrank(STARTS, 0, -STARTS_KEPT - 1)
            pipe.execute()
    except RedisError as error:
        log.warning("redis_away", error=type(error).__name__)
    return start


def record_stop(start: str) -> None:
    """Record that the process stops as requested, so that its next start isn't a restart."""
    if not start:
        return  # Redis was unavailable
    try:
        stopped = replace(_Start.decode(start), is_stopped=True)
        with client().pipeline(transaction=True) as pipe:
            pipe.zrem(STARTS, start)
            pipe.zadd(STARTS, {stopped.encode(): stopped.at_ms})
            pipe.execute()
    except RedisError as error:
        log.warning("redis_away", error=type(error).__name__)


def list_restarts() -> dict[str, Restarts]:
    """Return the last hour's restarts of processes that had died, by source; sources without restarts are omitted.

    If several workers of one lane start on the same host, each start after the first counts as a restart.

    Raises:
        RedisError: Redis is unreachable.
    """
    since = backlog().now_ms() - HOUR * 1000
    stored = cast("list[tuple[bytes, float]]", client().zrange(STARTS, 0, -1, withscores=True))
    latest: dict[tuple[str, str], _Start] = {}
    restarts: dict[str, Restarts] = {}
    for member, at_ms in stored:  # the newest is the last
        start = _Start.decode(member.decode())
        before = latest.get((start.source, start.host))
        latest[start.source, start.host] = start
        if at_ms >= since and (start.after or (before and not before.is_stopped)):
            count = restarts[start.source].count if start.source in restarts else 0
            seconds = max(since + HOUR * 1000 - at_ms, 0) / 1000
            restarts[start.source] = Restarts(count + 1, seconds, start.after)
    return restarts
