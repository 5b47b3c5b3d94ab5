"""Keys and limits for `accept.lua`, the script that accepts a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from app.clients.redis.connection import (
    BACKLOG,
    HELD,
    NUDGE_PREFIX,
    QUEUE,
    RING,
    RING_MEMBERS,
    TURNS,
    closed_key,
    idempotency_key,
    stream_key,
)
from app.settings import settings

# The flag exists while a nudge is in flight; see `app.queues.nudge`.
NUDGE: Final = f"{NUDGE_PREFIX}ingest.drain"


class Idempotency(NamedTuple):
    """The digests of a request's Idempotency-Key, and the outcome to store under them.

    Attributes:
        plain: Digest without a key, by which versions before the keyed digests recognise a repetition.
        keyed: Digests with each configured master key; empty without a master key.
        outcome: The outcome, as JSON.
    """

    plain: str
    keyed: Sequence[str]
    outcome: str


def accept_keys(tenant_id: UUID, idempotency: Idempotency | None = None) -> list[str]:
    """Return the keys of the script."""
    plain, keyed, _ = idempotency or ("", (), "")
    return [
        stream_key(tenant_id),
        idempotency_key(tenant_id, plain),
        RING,
        RING_MEMBERS,
        HELD,
        BACKLOG,
        NUDGE,
        TURNS,
        closed_key(tenant_id),
        QUEUE,
        *(idempotency_key(tenant_id, digest) for digest in keyed),
    ]


def read_limits() -> tuple[int, int, int, int, int]:
    """Return the limits of a tenant's backlog (entries, bytes, memories) and of all (entries, bytes)."""
    config = settings()
    return (
        config.tenant_backlog_entries,
        config.tenant_backlog_bytes,
        config.tenant_backlog_memories,
        config.backlog_entries,
        config.backlog_bytes,
    )
