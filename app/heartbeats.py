"""Heartbeats and starts of beat and each lane's workers, stored in Redis with the clock of Redis.

A process that stops as requested deletes its start. So the starts on one host, except the latest, are those of
processes that died and were replaced, whether by `ebbing run`, Docker, Kubernetes or systemd.
"""

from __future__ import annotations

import os
import socket
from collections import defaultdict
from typing import Final, cast

import structlog

from app import queues
from app.clients.redis.connection import HEARTBEATS, STARTS, RedisError
from app.clients.redis.stream import backlog, client
from app.domain.durations import HOUR
from app.domain.health_findings import Restarts

BEAT: Final = "beat"
SOURCES: Final = (*queues.LANES, BEAT)
EVERY_SECONDS: Final = 2.0
STARTS_KEPT: Final = 1000

log = structlog.get_logger(__name__)


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
        start = f"{source}|{socket.gethostname()}|{os.getpid()}|{now}"
        with client().pipeline(transaction=False) as pipe:
            pipe.zadd(STARTS, {start: now})
            pipe.zremrangebyscore(STARTS, "-inf", now - HOUR * 1000)
            pipe.zremrangebyrank(STARTS, 0, -STARTS_KEPT - 1)
            pipe.execute()
    except RedisError as error:
        log.warning("redis_away", error=type(error).__name__)
    return start


def record_stop(start: str) -> None:
    """Record that the process stops as requested, so that its next start isn't a restart."""
    try:
        client().zrem(STARTS, start)
    except RedisError as error:
        log.warning("redis_away", error=type(error).__name__)


def list_restarts() -> dict[str, Restarts]:
    """Return the restarts after deaths in the last hour, by source; sources without restarts are omitted.

    Several workers of one lane count as restarts of each other if they started on the same host.

    Raises:
        RedisError: Redis is unreachable.
    """
    now = backlog().now_ms()
    starts: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for stored in cast("list[bytes]", client().zrangebyscore(STARTS, now - HOUR * 1000, "+inf")):
        source, host, _, at = stored.decode().split("|")
        starts[source, host].append(int(at))
    restarts: dict[str, Restarts] = {}
    for (source, _), times in starts.items():
        if len(times) > 1:
            known = restarts.get(source, Restarts(0, float("inf")))
            seconds = max(now - max(times), 0) / 1000
            restarts[source] = Restarts(known.count + len(times) - 1, min(known.last_seconds, seconds))
    return restarts
