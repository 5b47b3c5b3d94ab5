"""When the workers of each lane, and beat, were last heard of. Each says so itself, idle or busy, by Redis's clock."""

from __future__ import annotations

from typing import Final

import structlog

from app import queues
from app.clients.redis.redis import HEARTBEATS, RedisError
from app.clients.redis.stream import backlog, client

BEAT: Final = "beat"
SOURCES: Final = (*queues.LANES, BEAT)
EVERY_SECONDS: Final = 2.0

log = structlog.get_logger(__name__)


def beat(source: str) -> None:
    """Note that a process of this source is alive. Never raises: the next one is near."""
    try:
        client().hset(HEARTBEATS, source, backlog().now_ms())
    except RedisError as error:
        log.warning("redis_away", error=type(error).__name__)


def ages() -> dict[str, float | None]:
    """Seconds since each source was last heard of; None if never.

    Raises:
        RedisError: It can't be asked.
    """
    now = backlog().now_ms()
    heard = client().hmget(HEARTBEATS, list(SOURCES))
    return {
        source: None if moment is None else max(now - int(moment), 0) / 1000
        for source, moment in zip(SOURCES, heard, strict=True)
    }
