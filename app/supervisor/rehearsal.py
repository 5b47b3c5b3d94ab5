"""Rehearse in the preloaded parent what each worker does first, so that its forks share the results.

A function's first calls rewrite its bytecode and fill caches. In a fork, each of these writes copies a page.
"""

from __future__ import annotations

from typing import Final

import structlog

from app.clients.redis import stream
from app.clients.redis.connection import RedisError, check_settings, connect
from app.clients.redis.connection_check import QueueReplaced, verify_connections
from app.errors import Misconfigured
from app.services.ingest import witness
from app.settings import settings
from app.store.core import database

ROUNDS: Final = 10
"""Number of repetitions. CPython optimises a function after eight calls."""

log = structlog.get_logger(__name__)


def rehearse_start() -> None:
    """Connect to Redis and verify it with PostgreSQL several times, then close all connections.

    Do nothing if a server isn't configured. An error only ends the rehearsal: the worker reports it when it starts.
    """
    if settings().redis_url is None or settings().database_url is None:
        return
    witness.guard_connections()
    try:
        for _ in range(ROUNDS):
            with connect() as redis:
                check_settings(redis)
    except (RedisError, QueueReplaced, Misconfigured) as error:
        log.warning("rehearsal_ended", error=type(error).__name__)
    finally:
        verify_connections(None)
        stream.close()
        database.close()
