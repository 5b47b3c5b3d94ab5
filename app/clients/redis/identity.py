"""Verify on every new connection that Redis is the one that this installation has written to.

Redis holds a mark: the installation's epoch, and the time of the last witnessed acceptance (`beat`). A Redis that was
emptied has no mark, another installation's has another epoch, and an older copy has an older beat. The rules are in
`app.domain.ingest.queue_mark`; the process registers the check with `verify_connections`, because the expected mark is
in PostgreSQL. Without a registered check, connections aren't verified.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import redis
import redis.asyncio

from app.domain.ingest.queue_mark import Mark

QUEUE_FIELDS: Final = ("epoch", "beat")

Check = Callable[[Mark], str | None]
"""Return the epoch to write to a new installation's Redis, otherwise None; raise `QueueReplaced` to refuse it."""

_check: Check | None = None


class QueueReplaced(redis.RedisError):
    """Redis that this installation hasn't written to, or an older copy of it. The message says what to do."""


def verify_connections(check: Check | None) -> None:
    """Register the check for all connections that this process opens from now on; None ends the checks."""
    global _check  # noqa: PLW0603 - state of the process
    _check = check


def verified(key: str) -> Callable[[redis.Connection], None]:
    """Return the connection hook of the synchronous client, for a mark in the hash `key`."""

    def connected(connection: Any) -> None:
        connection.on_connect()
        if _check is None:
            return
        connection.send_command("HMGET", key, *QUEUE_FIELDS)
        epoch = _check(Mark.read(connection.read_response()))
        if epoch is not None:
            connection.send_command("HSETNX", key, "epoch", epoch)
            connection.read_response()

    return connected


def verified_async(key: str) -> Callable[[redis.asyncio.Connection], Any]:
    """Return the connection hook of the asynchronous client; the check runs in a thread."""

    async def connected(connection: Any) -> None:
        await connection.on_connect()
        if _check is None:
            return
        await connection.send_command("HMGET", key, *QUEUE_FIELDS)
        epoch = await asyncio.to_thread(_check, Mark.read(await connection.read_response()))
        if epoch is not None:
            await connection.send_command("HSETNX", key, "epoch", epoch)
            await connection.read_response()

    return connected
