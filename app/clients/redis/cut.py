"""Places in a tenant's stream: where it ends, and whether anything up to a place still waits."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

import redis

from app.clients.redis.redis import stream_key
from app.clients.redis.stream import backlog, client


def end(tenant_id: UUID) -> str:
    """The place that all that came is at or before, and all that comes is after."""
    before = f"{backlog().now_ms() - 1}-0"  # where there is no stream, whatever comes first has a later moment
    with suppress(redis.ResponseError):
        last: bytes = client().xinfo_stream(stream_key(tenant_id))["last-generated-id"]
        return last.decode()
    return before


def is_waiting(tenant_id: UUID, position: str) -> bool:
    """Whether anything up to this place waits to be stored, or is being stored."""
    return bool(client().xrange(stream_key(tenant_id), max=position, count=1))
