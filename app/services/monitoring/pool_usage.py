"""Report how processes of each kind use their PostgreSQL connection pools.

Each process publishes its figures in Redis, because workers start and stop at any time.
"""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, cast

import msgspec
import structlog

from app.clients.redis.connection import POOLS, RedisError
from app.clients.redis.stream import backlog, client
from app.queues import LANES
from app.store.core import database
from app.store.core.pools import PoolUsage

API: Final = "api"
KINDS: Final = (API, *LANES)
HEARD_MS: Final = 120_000
"""Age after which a process's last report is discarded."""

log = structlog.get_logger(__name__)


def publish_pool_usage(kind: str) -> None:
    """Publish this process's pool usage. If Redis is unavailable, log a warning instead of raising."""
    pool = database.pool()
    try:
        report = [backlog().now_ms(), pool.limit, pool.open, pool.in_use, pool.waiting]
        client().hset(POOLS, f"{kind}|{_name()}", msgspec.json.encode(report))
    except RedisError as error:
        log.warning("pool_not_told", error=type(error).__name__)


def pool_usage_by_kind() -> dict[str, PoolUsage]:
    """Return pool usage by kind, summed over processes with a recent report, and delete outdated reports."""
    now_ms = backlog().now_ms()
    reports = cast("Mapping[bytes, bytes]", client().hgetall(POOLS))
    sums = {kind: Counter[str]() for kind in KINDS}
    outdated = []
    for name, report in reports.items():
        kind = name.decode().partition("|")[0]
        at_ms, *figures = cast("list[Any]", msgspec.json.decode(report))
        if kind not in sums or now_ms - at_ms > HEARD_MS:
            outdated.append(name)
        else:
            sums[kind].update(dict(zip(("limit", "open", "in_use", "waiting"), figures, strict=True)))
    if outdated:
        client().hdel(POOLS, *outdated)
    return {kind: PoolUsage(**usage) for kind, usage in sums.items()}


@cache
def _host() -> str:
    return socket.gethostname()


def _name() -> str:
    return f"{_host()}:{os.getpid()}"
