"""Ingest streams: requests are appended to their tenant's Redis stream and drained from it into PostgreSQL.

`StreamWriter` (asynchronous, in the API) appends; `StreamReader` (synchronous, in workers) processes one tenant after
the other from the ring of tenants with pending entries. Appending, claiming and acknowledging are one Lua call each.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from math import ceil
from typing import Any, NamedTuple, cast
from uuid import UUID

import redis
import redis.asyncio
from redis.commands.core import Script

from app.clients.redis.accept_arguments import NUDGE, Idempotency, accept_keys, read_limits
from app.clients.redis.backlog import Backlog
from app.clients.redis.connection import (
    ATTEMPTS,
    BACKLOG,
    HELD,
    LATEST_TURN,
    RING,
    RING_MEMBERS,
    SHARED_TURNS,
    STREAM_PREFIX,
    TURNS,
    connect,
    script,
    stream_key,
)
from app.clients.redis.connection_check import QueueReplaced
from app.clients.redis.memory_guard import MemoryGuard
from app.clients.redis.probing import probe_client
from app.clients.redis.script_batcher import BatchedScript
from app.domain.ingest.envelope import Form, pack, read_count, replay_header, stream_fields
from app.domain.turns import SHARED_SECONDS
from app.errors import BacklogFull, TenantClosed, Unavailable
from app.settings import settings

NUDGE_SECONDS = 30
"""Time after which an unclaimed nudge expires, with its flag.

If the flag ended earlier, a lane that is busy for longer would get a message in each such interval, and the many
messages of one task would hold up the lane's other tasks until theirs expire.
"""
_NUDGE_MS = NUDGE_SECONDS * 1000
_CLOSED = -2
"""First value of the answer of `accept.lua` for a tenant that is being deleted."""
SUSPECTS_A_TURN = 50
RETRY_SECONDS = 2
"""`Retry-After` of a request over a total limit, or over its tenant's limit if the drain's speed isn't known."""
RETRY_SECONDS_MAX = 60
REPLAYS_FIELD = b"r"
"""Field with an entry's number of replays. It follows the fields that `take.lua` reads, and is read after a failure."""
# Best-effort appends use a short timeout and back off after a failure.
APPEND_TIMEOUT_SECONDS = 1.0
APPEND_PAUSE_SECONDS = 5


class StreamEntry(NamedTuple):
    """A raw stream entry; none of its fields are validated yet."""

    entry_id: str
    number: bytes
    header: bytes
    body: bytes

    @property
    def memories(self) -> int:
        """Number of memories according to the field `number`; 0 if unreadable."""
        return read_count(self.number) or 0


@dataclass(frozen=True, slots=True)
class TenantBatch:
    """Entries of one tenant's turn.

    Attributes:
        suspects: Entries that a worker was processing when it died.
        fresh: The other entries, to be processed together.
    """

    tenant_id: UUID
    suspects: list[StreamEntry] = field(default_factory=list)
    fresh: list[StreamEntry] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AppendResult:
    """Result of an append: a new entry, or the stored outcome of a previous request with the same idempotency key.

    Attributes:
        nudge: True if the caller must nudge the ingest worker (see `app.queues`).
        earlier: Stored outcome of the previous request; None for a new entry.
        entry_id: Id of the new entry; empty if there is none.
    """

    nudge: bool
    earlier: str | None = None
    entry_id: str = ""


class StreamWriter:
    """Appends requests to the streams, each in one atomic script call."""

    def __init__(self, client: redis.asyncio.Redis) -> None:
        """Use a client from `connect_async`."""
        self._client = client
        self._room = MemoryGuard()
        self._accept = BatchedScript(client, script("accept"))
        self._limits = read_limits()
        self._idempotency_seconds = int(settings().idempotency_hours * 3600)

    async def append(
        self,
        tenant_id: UUID,
        *,
        base: bytes,
        memories: int,
        form: Form,
        trace: str,
        body: bytes,
        idempotency: Idempotency | None,
        sent_ms: int | None = None,
    ) -> AppendResult:
        """Append one request's memories or uses to the tenant's stream.

        Args:
            sent_ms: Time of sending by the sender's clock, for memories with the field `written`.
            idempotency: Digests of the Idempotency-Key, and the outcome to store under them; None without a key.

        Raises:
            BacklogFull: The tenant's backlog limit is reached.
            Unavailable: The total backlog limit is reached, or Redis is full or unreachable.
            TenantClosed: The tenant is being deleted.
        """
        entry = pack(base, memories, form, trace, body, sent_ms=sent_ms)
        arguments: list[bytes | str | int] = [str(tenant_id), memories, len(body), *self._limits]
        arguments += [idempotency.outcome if idempotency else "", self._idempotency_seconds, _NUDGE_MS, *entry]
        try:
            await self._check_room(len(body))
            answer = await self._accept(accept_keys(tenant_id, idempotency), arguments)
        except redis.RedisError as error:
            raise as_unavailable(error) from None
        if answer[0] == 1:
            return AppendResult(nudge=bool(answer[2]), entry_id=answer[1].decode())
        if answer[0] == 0:
            return AppendResult(nudge=False, earlier=answer[1].decode())
        if answer[0] == _CLOSED:
            raise TenantClosed
        raise _refusal(answer[1].decode(), *answer[2:])

    async def _check_room(self, size: int) -> None:
        if self._room.is_to_look(size):
            with suppress(redis.ResponseError):  # if INFO isn't permitted, a full Redis itself refuses the entry
                self._room.record_usage(await self._client.info("memory"))
        self._room.check()


def append_again(tenant_id: UUID, entry: StreamEntry, replays: int) -> bool:
    """Append a dead letter's entry again with `accept.lua` and its limits; return true if a nudge is needed.

    The entry retains its base, by which the ledger detects duplicates, and its original position in the conversation.

    Args:
        replays: Number of replays of this entry, including this one; stored for `StreamReader.count_replays`.

    Raises:
        BacklogFull: The tenant's backlog limit is reached.
        Unavailable: The total backlog limit is reached, or Redis is full or unreachable.
    """
    again = stream_fields(entry.memories, replay_header(entry.header, entry.entry_id), entry.body)
    again += [REPLAYS_FIELD, replays]
    return _append(client(), MemoryGuard(), tenant_id, again)


def append(tenant_id: UUID, base: bytes, form: Form, body: bytes) -> None:
    """Append best-effort data synchronously, with a short timeout and no nudge; the next drain stores it.

    Raises:
        BacklogFull: The tenant's backlog limit is reached.
        Unavailable: The total backlog limit is reached, Redis is full or unreachable, or an append failed moments ago.
    """
    room = _room()
    if room.is_shut():
        raise Unavailable("the queue was unavailable moments ago", retry_after_seconds=APPEND_PAUSE_SECONDS)
    try:
        _append(_hasty(), room, tenant_id, pack(base, 0, form, "", body), nudge_milliseconds=0)
    except Unavailable:
        room.refuse_for(APPEND_PAUSE_SECONDS)
        raise


def _append(
    through: redis.Redis,
    room: MemoryGuard,
    tenant_id: UUID,
    entry: Sequence[bytes | int],
    nudge_milliseconds: int = _NUDGE_MS,
) -> bool:
    _, memories, _, _, _, body, *_ = entry
    size = len(cast("bytes", body))
    arguments: list[Any] = [str(tenant_id), memories, size, *read_limits(), "", 0, nudge_milliseconds, *entry]
    try:
        if room.is_to_look(size):
            with suppress(redis.ResponseError):  # if INFO isn't permitted, a full Redis itself refuses the entry
                room.record_usage(through.info("memory"))
        room.check()
        answer = _acceptance()(keys=accept_keys(tenant_id), args=arguments, client=through)
    except redis.RedisError as error:
        raise as_unavailable(error) from None
    if answer[0] == 1:
        return bool(answer[2])
    if answer[0] == _CLOSED:
        raise TenantClosed
    raise _refusal(answer[1].decode(), *answer[2:])


def as_unavailable(error: redis.RedisError) -> Unavailable:
    """Translate a Redis error into the error for callers: Redis is full or unreachable."""
    if isinstance(error, QueueReplaced):
        return Unavailable(str(error), retry_after_seconds=10)
    if "OOM" in str(error):
        return Unavailable("the queue's memory is full", retry_after_seconds=5)
    return Unavailable("the queue can't be reached", retry_after_seconds=2)


def _refusal(which: str, held: int, limit: int, wait_ms: int) -> BacklogFull | Unavailable:
    scope, resource = which.split("_")
    unit = {"entries": "requests", "bytes": "bytes of requests", "memories": "memories"}[resource]
    if scope == "tenant":
        seconds = RETRY_SECONDS if wait_ms < 0 else min(max(ceil(wait_ms / 1000), 1), RETRY_SECONDS_MAX)
        message = f"{held} {unit} are pending for this tenant; the limit is {limit}"
        return BacklogFull(message, retry_after_seconds=seconds)
    return Unavailable(f"{held} {unit} are pending; the limit is {limit}", retry_after_seconds=RETRY_SECONDS)


class StreamReader:
    """Drains the streams in workers.

    In a turn, one worker processes one tenant under a lease. No other worker can start a turn of this tenant while the
    lease lasts, so entries need no claims of their own. An expired lease means that the worker died. In the
    tenant's next turns, the entries that this worker was processing are `suspects`; the drain stores them one by one.
    """

    def __init__(self, client: redis.Redis) -> None:
        """Use a client from `connect`."""
        self._client = client
        self._take = client.register_script(script("take"))
        self._clock = (0, 0.0)
        self._settle = client.register_script(script("settle"))

    def claim(self, *, first: bool, shared_memories: int | None = None) -> TenantBatch | None:
        """Lease the tenant at the head of the ring and return its entries; None if the ring is empty.

        Every turn must be ended by a call of `acknowledge` with `free=True`.

        Args:
            first: True on the first turn of a drain task's run; this turn clears the flag of the task's nudge.
            shared_memories: Maximum number of memories if other tenants have entries, or had some a moment ago; None
                for the setting `drain_rows`, which limits every turn.
        """
        config = settings()
        limits = [config.drain_rows, config.drain_entries, config.drain_bytes]
        lease = int(config.claim_idle_seconds * 1000)
        answer = self._take(
            keys=[RING, RING_MEMBERS, HELD, TURNS, NUDGE, LATEST_TURN, SHARED_TURNS],
            args=[
                *(STREAM_PREFIX, *limits, lease, SUSPECTS_A_TURN, "first" if first else ""),
                *(shared_memories or config.drain_rows, int(SHARED_SECONDS * 1000)),
            ],
        )
        if not answer:
            return None
        tenant, suspects, now_ms, *flat = answer
        self._clock = (now_ms, time.monotonic())
        entries = list(_entries(flat))
        return TenantBatch(UUID(tenant.decode()), entries[:suspects], entries[suspects:])

    def waited_seconds(self, entry: StreamEntry) -> float:
        """Return the age of an entry of the last turn, by Redis's clock, without a call to Redis."""
        now_ms, at = self._clock
        return max(now_ms - int(entry.entry_id.partition("-")[0]), 0) / 1000 + time.monotonic() - at

    def acknowledge(self, tenant_id: UUID, entries: Sequence[StreamEntry] = (), *, free: bool) -> int:
        """Delete entries whose outcome is committed; return the number of entries left in the stream.

        Args:
            tenant_id: Tenant of the turn.
            entries: Entries that were stored or set aside.
            free: End the turn, so that the tenant returns to the ring if it has more entries.
        """
        sizes = [sum(len(entry.body) for entry in entries), sum(entry.memories for entry in entries)]
        arguments = [
            str(tenant_id),
            "free" if free else "hold",
            *sizes,
            *(entry.entry_id for entry in entries),
        ]
        keys = [stream_key(tenant_id), RING, RING_MEMBERS, HELD, TURNS, BACKLOG, ATTEMPTS]
        return cast("int", self._settle(keys=keys, args=arguments))

    def count_replays(self, tenant_id: UUID, entry_id: str) -> int:
        """Return how often an entry that is still in the stream was replayed; 0 if the field is missing or invalid."""
        found = cast("list[Any]", self._client.xrange(stream_key(tenant_id), entry_id, entry_id))
        value = found[0][1].get(REPLAYS_FIELD, b"0") if found else b"0"
        return read_count(value) or 0

    def count_attempt(self, tenant_id: UUID, entry: StreamEntry) -> int:
        """Count an attempt at a single entry before it starts, so that attempts that kill the process count too.

        Returns:
            Number of this attempt, from 1. If the attempt fails for a reason unrelated to the entry, call
            `uncount_attempt`.
        """
        return self._client.hincrby(ATTEMPTS, f"{tenant_id}:{entry.entry_id}", 1)

    def uncount_attempt(self, tenant_id: UUID, entry: StreamEntry) -> None:
        """Uncount an attempt that failed because the database was unavailable."""
        self._client.hincrby(ATTEMPTS, f"{tenant_id}:{entry.entry_id}", -1)


def _entries(flat: list[Any]) -> Iterator[StreamEntry]:
    parts = iter(flat)
    for entry_id, number, header, body in zip(parts, parts, parts, parts, strict=True):
        yield StreamEntry(entry_id.decode(), number, header, body)


@cache
def client() -> redis.Redis:
    """Return the process's synchronous client."""
    return connect()


@cache
def stream_reader() -> StreamReader:
    """Return the process's `StreamReader`."""
    return StreamReader(client())


@cache
def backlog() -> Backlog:
    """Return the process's `Backlog`."""
    return Backlog(client())


@cache
def _acceptance() -> Script:
    return client().register_script(script("accept"))


@cache
def _hasty() -> redis.Redis:
    return connect(APPEND_TIMEOUT_SECONDS, retries=0)


@cache
def _room() -> MemoryGuard:
    return MemoryGuard()


def close() -> None:
    """Close the connections, at shutdown and between tests."""
    for connect_once in (each for each in (client, probe_client, _hasty) if each.cache_info().currsize):
        connect_once().close()
    for cached in (client, probe_client, _hasty, stream_reader, backlog, _acceptance, _room):
        cached.cache_clear()
