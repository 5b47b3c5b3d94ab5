"""What the turns of a conversation have activated: ids and numbers alone, forgotten by Redis after a while."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, cast
from uuid import UUID

import numpy as np
import numpy.typing as npt

from app.clients.redis.redis import priming_key
from app.clients.redis.stream import client

ACTIVATED_MAX: Final = 1_000
EXPIRY_SECONDS: Final = 3_600


def last_turns(tenant_id: UUID, session: str, memory_ids: Sequence[UUID]) -> npt.NDArray[np.float64]:
    """The turn of the session in which each of these memories was activated last; NaN where it wasn't, or is forgotten.

    Raises:
        RedisError: Redis can't be reached.
    """
    if not memory_ids:
        return np.empty(0)
    members = cast("list[str]", [memory_id.bytes for memory_id in memory_ids])  # it takes bytes as well
    return np.array(client().zmscore(_key(tenant_id, session), members), np.float64)


def activate(tenant_id: UUID, session: str, memory_ids: Sequence[UUID], turn: int, turns_kept: int) -> None:
    """Remember that a turn of the session has activated these memories, for an hour from now.

    Turns longer ago than `turns_kept` are forgotten, and more than `ACTIVATED_MAX` memories, the longest ago first.

    Raises:
        RedisError: Redis can't be reached, or is full.
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
    """Holds a digest of the session's name, which is the caller's own words."""
    digest = hashlib.blake2b(session.encode(), digest_size=16, key=tenant_id.bytes)
    return priming_key(tenant_id, digest.hexdigest())
