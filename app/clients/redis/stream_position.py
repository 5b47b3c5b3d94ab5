"""Read the current end of a tenant's stream, and check whether entries up to a position are still pending."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

import redis

from app.clients.redis.connection import stream_key
from app.clients.redis.stream import backlog, client


def stream_end(tenant_id: UUID) -> str:
    """Return a position at or after all existing entries and before all future ones."""
    before = f"{backlog().now_ms() - 1}-0"  # if the stream doesn't exist yet, its first entry gets a later timestamp
    with suppress(redis.ResponseError):
        last: bytes = client().xinfo_stream(stream_key(tenant_id))["last-generated-id"]
        return last.decode()
    return before


def is_waiting(tenant_id: UUID, position: str) -> bool:
    """Return true while entries up to this position are pending or being stored."""
    return bool(client().xrange(stream_key(tenant_id), max=position, count=1))
