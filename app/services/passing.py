"""Which failures pass by themselves: those of PostgreSQL and Redis being away, full or restarted."""

from __future__ import annotations

from app.clients.redis import RedisError
from app.store import database


def is_passing(error: BaseException) -> bool:
    """Whether the same work may succeed later as it is, so that the failure isn't the work's fault."""
    return isinstance(error, RedisError) or database.is_passing(error)
