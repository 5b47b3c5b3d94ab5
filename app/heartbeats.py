"""Heartbeats of beat and each lane's workers, idle or busy, stored in Redis with the clock of Redis."""

from __future__ import annotations

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
        client().hset(HEARTBEATS, source, backlog().now_ms())
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
