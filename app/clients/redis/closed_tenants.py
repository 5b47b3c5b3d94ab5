"""Refuse the requests of tenants that are being deleted at the queue, which checks no key in the database."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from app.clients.redis.connection import closed_key, stream_key
from app.clients.redis.stream import backlog, client

SECONDS: Final = 600
"""Lifetime of a mark: longer than any process accepts a key that it has looked up before (`STALE_SECONDS`)."""


def close(tenant_id: UUID) -> None:
    """Refuse requests of this tenant from now on, for `SECONDS`.

    Raises:
        RedisError: Redis is unreachable, so it accepts no requests either.
    """
    client().set(closed_key(tenant_id), 1, ex=SECONDS)


def reopen(tenant_id: UUID) -> None:
    """Accept requests of this tenant again.

    Raises:
        RedisError: Redis is unreachable; the mark expires by itself.
    """
    client().delete(closed_key(tenant_id))


def delete_stream(tenant_id: UUID) -> int:
    """Delete the tenant's stream if no entry waits in it. Return the number of entries that wait.

    Raises:
        RedisError: Redis is unreachable.
    """
    waiting = backlog().entries(tenant_id)
    if not waiting:
        client().delete(stream_key(tenant_id))
    return waiting
