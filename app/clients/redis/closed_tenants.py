"""Make Redis refuse requests of tenants that are being deleted: API processes may still accept their cached keys."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from app.clients.redis.connection import closed_key, stream_key
from app.clients.redis.stream import backlog, client

SECONDS: Final = 600
"""Seconds for which a tenant stays closed: longer than a process accepts a cached API key (`auth.STALE_SECONDS`)."""


def close(tenant_id: UUID) -> None:
    """Refuse requests of this tenant from now on, for `SECONDS`.

    Raises:
        RedisError: Redis is unreachable, so it accepts no requests either.
    """
    client().set(closed_key(tenant_id), 1, ex=SECONDS)


def reopen(tenant_id: UUID) -> None:
    """Accept requests of this tenant again.

    Raises:
        RedisError: Redis is unreachable; requests are refused until `SECONDS` after the last `close`.
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
