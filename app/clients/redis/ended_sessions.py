"""Remember ended dashboard sessions until their cookies expire; only digests of the sessions are stored."""

from __future__ import annotations

from app.clients.redis.connection import ENDED_SESSION_PREFIX
from app.clients.redis.probing import probe_client
from app.clients.redis.stream import client


def add(digest: str, seconds: int) -> None:
    """Remember an ended session for this many seconds.

    Raises:
        RedisError: Redis is unreachable or rejects writes.
    """
    client().set(f"{ENDED_SESSION_PREFIX}{digest}", 1, ex=max(seconds, 1))


def contains(*digests: str) -> bool:
    """Return whether one of these has ended.

    Raises:
        RedisError: Redis is unreachable.
    """
    return bool(probe_client().exists(*(f"{ENDED_SESSION_PREFIX}{digest}" for digest in digests)))
