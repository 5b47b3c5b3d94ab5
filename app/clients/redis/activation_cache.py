"""Record the memories that each turn of a conversation activated, as ids and turn numbers that expire after an hour."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, cast
from uuid import UUID

import numpy as np
import numpy.typing as npt

from app.clients.redis.connection import priming_key
from app.clients.redis.stream import client

ACTIVATED_MAX: Final = 1_000
EXPIRY_SECONDS: Final = 3_600


def last_turns(tenant_id: UUID, session: str, memory_ids: Sequence[UUID]) -> npt.NDArray[np.float64]:
    """Return the session's last turn that activated each memory; NaN if there is none or it has expired.

    Raises:
        RedisError: Redis is unreachable.
    """
    if not memory_ids:
        return np.empty(0)
    members = cast("list[str]", [memory_id.bytes for memory_id in memory_ids])  # the method also accepts bytes
    return np.array(client().zmscore(_key(tenant_id, session), members), np.float64)


def record_activation(tenant_id: UUID, session: str, memory_ids: Sequence[UUID], turn: int, turns_kept: int) -> None:
    """Record that a turn of the session activated these memories, and extend the expiry to an hour from now.

    Entries more than `turns_kept` turns old are removed. Of more than `ACTIVATED_MAX` memories, the oldest are removed.

    Raises:
        RedisError: Redis is unreachable or full.
    """
    if not memory_ids:
        return
    key = _key(tenant_id, session)
    with client().pipeline() as pipe:
        pipe.zadd(key, {memory_id.bytes: turn for memory_id in memory_ids})
        pipe.zremrangebyscore(key, "-inf", f"({turn - turns_kept}")
        pipe.zremrangebyrank(key, 0, -ACTIVATED_MAX - 1)
        pipe.expire(key, EXPIRY_SECONDS)
        pipe.execute()


def _key(tenant_id: UUID, session: str) -> str:
    """Return the session's key; it contains a digest of the session's name, which is caller data."""
    digest = hashlib.blake2b(session.encode(), digest_size=16, key=tenant_id.bytes)
    return priming_key(tenant_id, digest.hexdigest())
