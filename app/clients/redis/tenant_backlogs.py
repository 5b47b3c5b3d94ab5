"""Report the pending requests of individual tenants, for a page that compares tenants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast
from uuid import UUID

from app.clients.redis.connection import BACKLOG, HELD, RING, stream_key
from app.clients.redis.stream import client

COMPARED_MOST: Final = 5000
"""Maximum number of tenants examined, leased tenants first, then in ring order; more would block Redis for too long."""


@dataclass(frozen=True, slots=True)
class TenantBacklog:
    """A tenant's pending requests.

    Attributes:
        oldest_seconds: Age of the oldest request in seconds; None if no request is pending.
    """

    tenant_id: UUID
    requests: int
    memories: int
    size_bytes: int
    oldest_seconds: float | None


def list_longest(most: int) -> list[TenantBacklog]:
    """Return the tenants with the oldest pending requests, oldest first."""
    redis = client()
    with redis.pipeline(transaction=False) as pipe:
        pipe.lrange(RING, 0, COMPARED_MOST - 1)
        pipe.zrange(HELD, 0, -1)
        waiting, leased = cast("list[list[bytes]]", pipe.execute())
    names = list(dict.fromkeys([*leased, *waiting]))[:COMPARED_MOST]
    with redis.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.xrange(stream_key(name.decode()), count=1)
        firsts = cast("list[list[tuple[bytes, Any]]]", pipe.execute())
    since = {name: int(page[0][0].partition(b"-")[0]) for name, page in zip(names, firsts, strict=True) if page}
    return list_backlogs([UUID(name.decode()) for name in sorted(since, key=lambda name: since[name])[:most]])


def list_backlogs(tenant_ids: list[UUID]) -> list[TenantBacklog]:
    """Return the pending requests of these tenants, in their order."""
    if not tenant_ids:
        return []
    with client().pipeline(transaction=False) as pipe:
        pipe.time()
        pipe.hmget(BACKLOG, [f"{tenant}:{what}" for tenant in tenant_ids for what in ("memories", "bytes")])
        for tenant in tenant_ids:
            pipe.xlen(stream_key(tenant))
            pipe.xrange(stream_key(tenant), count=1)
        (seconds, microseconds), counters, *pairs = pipe.execute()
    now_ms = seconds * 1000 + microseconds // 1000
    backlogs = []
    for place, tenant in enumerate(tenant_ids):
        requests, first = pairs[2 * place], pairs[2 * place + 1]
        oldest = max(now_ms - int(first[0][0].partition(b"-")[0]), 0) / 1000 if first else None
        memories, size = (int(count or 0) for count in counters[2 * place : 2 * place + 2])
        backlogs.append(TenantBacklog(tenant, requests, memories, size, oldest))
    return backlogs
