"""Connect to Redis, name all keys, and check the required settings.

All keys share one hash tag, so that a cluster stores them in one slot and a script can access several of them.
"""

from __future__ import annotations

import asyncio
from importlib import resources
from typing import Any, Final
from uuid import UUID

import hiredis
import redis
import redis.asyncio
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from app.clients.redis.connection_check import QUEUE_FIELDS, registered_check
from app.domain.ingest.redis_identity import Mark
from app.errors import Misconfigured
from app.settings import settings

RedisError = redis.RedisError
RedisTimeout = redis.TimeoutError
ResponseError = redis.ResponseError

PREFIX: Final = "ebbing:{s0}:"
STREAM_PREFIX: Final = f"{PREFIX}stream:"
RING: Final = f"{PREFIX}ready"
RING_MEMBERS: Final = f"{PREFIX}ready:members"
HELD: Final = f"{PREFIX}held"
TURNS: Final = f"{PREFIX}turns"
LATEST_TURN: Final = f"{PREFIX}turns:latest"
SHARED_TURNS: Final = f"{PREFIX}turns:shared"
BACKLOG: Final = f"{PREFIX}backlog"
ATTEMPTS: Final = f"{PREFIX}attempts"
NUDGE_PREFIX: Final = f"{PREFIX}nudge:"
HEARTBEATS: Final = f"{PREFIX}heartbeats"
STARTS: Final = f"{PREFIX}starts"
COUNTERS: Final = f"{PREFIX}counters"
MARKS: Final = f"{PREFIX}marks"
BROKEN_AUDITS: Final = f"{PREFIX}audits:broken"
FIGURES: Final = f"{PREFIX}figures"
POOLS: Final = f"{PREFIX}pools"
STUCK: Final = f"{PREFIX}stuck"
PROVIDERS: Final = f"{PREFIX}providers"
PROBE: Final = f"{PREFIX}probe"
LANE_SAMPLES: Final = f"{PREFIX}lanes"
LANE_MINUTE: Final = f"{PREFIX}lanes:minute"
QUEUE: Final = f"{PREFIX}queue"
ENDED_SESSION_PREFIX: Final = f"{PREFIX}ended-session:"
FAILED_LOGINS_PREFIX: Final = f"{PREFIX}failed-log-ins:"

SOCKET_TIMEOUT_SECONDS = 10
CONNECT_TIMEOUT_SECONDS = 2


def stream_key(tenant_id: UUID | str) -> str:
    """Return the key of a tenant's stream."""
    return f"{STREAM_PREFIX}{tenant_id}"


def idempotency_key(tenant_id: UUID, key_digest: str) -> str:
    """Return the key of a request's stored outcome; it contains a digest, not the caller's idempotency key."""
    return f"{PREFIX}idempotency:{tenant_id}:{key_digest}"


def priming_key(tenant_id: UUID, session_digest: str) -> str:
    """Return the key of a session's activated memories: memory id → turn."""
    return f"{PREFIX}priming:{tenant_id}:{session_digest}"


def closed_key(tenant_id: UUID) -> str:
    """Return the key that exists while the queue refuses a tenant's requests because the tenant is being deleted."""
    return f"{PREFIX}closed:{tenant_id}"


def script(name: str) -> str:
    """Return the source of a Lua script of this package."""
    return resources.files("app.clients.redis").joinpath("scripts", f"{name}.lua").read_text(encoding="utf-8")


def redis_url() -> str:
    """Return the URL of the service's Redis.

    Raises:
        Misconfigured: No URL is set.
    """
    url = settings().redis_url
    if url is None:
        message = "EBBING_REDIS_URL isn't set: set it, or use `ebbing run`, which starts its own Redis"
        raise Misconfigured(message)
    return url.get_secret_value()


def _verify(connection: Any) -> None:
    """Open a connection of the synchronous client, and check the mark of its Redis."""
    connection.on_connect()
    check = registered_check()
    if check is None:
        return
    connection.send_command("HMGET", QUEUE, *QUEUE_FIELDS)
    epoch = check(Mark.read(connection.read_response()))
    if epoch is not None:
        connection.send_command("HSETNX", QUEUE, "epoch", epoch)
        connection.read_response()


async def _verify_async(connection: Any) -> None:
    """Open a connection of the asynchronous client, and check the mark of its Redis in a thread."""
    await connection.on_connect()
    check = registered_check()
    if check is None:
        return
    await connection.send_command("HMGET", QUEUE, *QUEUE_FIELDS)
    epoch = await asyncio.to_thread(check, Mark.read(await connection.read_response()))
    if epoch is not None:
        await connection.send_command("HSETNX", QUEUE, "epoch", epoch)
        await connection.read_response()


def connect(
    timeout_seconds: float = SOCKET_TIMEOUT_SECONDS,
    retries: int = 2,
    *,
    is_verified: bool = True,
    repeats_after_timeout: bool = True,
) -> redis.Redis:
    """Return a synchronous client, for workers and for routes other than ingest.

    The client uses RESP2 because of its older reply types and fewer round trips.

    Args:
        timeout_seconds: Timeout of a reply.
        retries: Maximum number of retries of a command after a connection error.
        is_verified: Refuse a Redis that isn't the installation's; see `connection_check`.
        repeats_after_timeout: Retry commands after a timeout, too; otherwise only if the connection was closed, as
            after a restart of Redis.
    """
    backoff = ExponentialBackoff(cap=0.5, base=0.05)
    only_closed = Retry(backoff, retries, supported_errors=(redis.ConnectionError,))
    return redis.Redis.from_url(
        redis_url(),
        redis_connect_func=_verify if is_verified else None,
        protocol=2,
        socket_timeout=timeout_seconds,
        socket_connect_timeout=min(timeout_seconds, CONNECT_TIMEOUT_SECONDS),
        retry=Retry(backoff, retries) if repeats_after_timeout else only_closed,
    )


class _Connection(redis.asyncio.Connection):
    """Connection that packs commands in C, as the synchronous client does by default; halves an ingest call's cost."""

    def pack_command(self, *args: Any) -> list[bytes]:
        if isinstance(args[0], str) and " " in args[0]:  # "CLIENT SETINFO" and similar commands are two arguments
            args = (*args[0].split(), *args[1:])
        return [hiredis.pack_command(args)]

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:  # noqa: FBT001, FBT002 - redis-py's signature
        try:
            await super().send_packed_command(command, check_health)
        except RuntimeError as error:  # uvloop's, if the connection was reset while it was idle
            raise redis.ConnectionError("the connection is closed") from error


def connect_async(connections: int = 64) -> redis.asyncio.Redis:
    """Return an asynchronous client for the ingest path.

    Retries of its script are safe because the ledger stores each envelope only once.
    """
    pool = redis.asyncio.BlockingConnectionPool.from_url(
        redis_url(),
        redis_connect_func=_verify_async,
        connection_class=_Connection,  # URLs with TLS or a socket override this class
        protocol=2,
        max_connections=connections,
        timeout=SOCKET_TIMEOUT_SECONDS,
        socket_timeout=SOCKET_TIMEOUT_SECONDS,
        socket_connect_timeout=CONNECT_TIMEOUT_SECONDS,
    )
    return redis.asyncio.Redis.from_pool(pool)  # closes the pool together with the client


def check_settings(client: redis.Redis) -> list[str]:
    """Check the settings that prevent Redis from evicting accepted memories or losing them on restart.

    They are read with `INFO`, since the service's login may not run `CONFIG`.

    Returns:
        Warnings for the log if the settings can't be read (managed services may forbid it).

    Raises:
        Misconfigured: A setting would lose accepted memories; the message says how to change it.
    """
    try:
        policy = client.info("memory")["maxmemory_policy"]
        has_log = client.info("persistence")["aof_enabled"]
    except (redis.ResponseError, KeyError):
        message = "Redis forbids reading its settings: make sure that they include"
        return [f"{message} `maxmemory-policy noeviction` and `appendonly yes`"]
    if policy != "noeviction":
        raise Misconfigured(
            f"Redis has maxmemory-policy {policy}: set it to noeviction, otherwise Redis can evict accepted memories"
        )
    if not has_log:
        raise Misconfigured(
            "Redis has no append-only file: set appendonly to yes, otherwise a restart loses accepted memories"
        )
    return []
