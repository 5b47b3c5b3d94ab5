"""Read the current end of a tenant's stream, and check whether entries up to a position are still pending."""

from __future__ import annotations

from contextlib import suppress
from typing import cast
from uuid import UUID

import redis

from app.clients.redis.connection import script, stream_key
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


def take_position(tenant_id: UUID) -> str:
    """Return a new position after all existing entries and before all later ones, without leaving an entry.

    Data that is stored under this position counts as accepted now: watermarks of later erasures cover it, those of
    earlier ones don't.
    """
    return cast("bytes", client().eval(script("position"), 1, stream_key(tenant_id))).decode()
