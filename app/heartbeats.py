"""Heartbeats of beat and each lane's workers, idle or busy, stored in Redis with the clock of Redis."""

from __future__ import annotations

import os
from typing import Final

import structlog

from app import queues
from app.clients.redis.connection import HEARTBEATS, RedisError
from app.clients.redis.stream import backlog, client

BEAT: Final = "beat"
SOURCES: Final = (*queues.LANES, BEAT)
EVERY_SECONDS: Final = 2.0

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
