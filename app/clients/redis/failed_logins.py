"""Count failed log-ins to the dashboard for all processes; the keys contain digests of networks."""

from __future__ import annotations

from typing import cast

from app.clients.redis.connection import FAILED_LOGINS_PREFIX, script
from app.clients.redis.probing import probe_client


def count(digest: str, seconds: float, *, further: int) -> tuple[int, float]:
    """Count failed log-ins atomically, and return their number and the seconds until the number starts from zero.

    Args:
        seconds: Length of the window, which the first failure begins.
        further: 1 to count a failure, 0 to only read the number.

    Raises:
        RedisError: Redis is unreachable or rejects writes.
    """
    found = probe_client().eval(
        script("failures"), 1, f"{FAILED_LOGINS_PREFIX}{digest}", str(further), str(round(seconds * 1000))
    )
    number, rest_ms = cast("list[int]", found)
    return number, rest_ms / 1000
