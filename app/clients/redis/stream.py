"""The way in: requests wait in their tenant's stream in Redis until they are stored.

The door (asynchronous, in the API) appends; the drain (synchronous, in workers) takes turns of the ring of
tenants that have something waiting. Each is one Lua call. See `scripts/`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, cast
from uuid import UUID

import redis
import redis.asyncio
from redis.commands.core import Script

from app.clients.redis.backlog import Backlog
from app.clients.redis.batched import BatchedScript
from app.clients.redis.redis import (
    ATTEMPTS,
    BACKLOG,
    HELD,
    NUDGE_PREFIX,
    RING,
    RING_MEMBERS,
    STREAM_PREFIX,
    TURNS,
    connect,
    idempotency_key,
    script,
    stream_key,
)
from app.clients.redis.room import Room
from app.domain.ingest.envelope import Form, fields_of, pack, read_count, replayed
from app.errors import BacklogFull, Unavailable
from app.settings import settings

NUDGE_MILLISECONDS = 1000
# The flag says that a nudge is on its way; see `app.queues.nudge`.
_NUDGE = f"{NUDGE_PREFIX}ingest.drain"
SUSPECTS_A_TURN = 50
# Who may drop what it appends waits no longer, and after a failure doesn't try for a while.
APPEND_TIMEOUT_SECONDS = 1.0
APPEND_PAUSE_SECONDS = 5


class Entry(NamedTuple):
    """A stream entry as it is: nothing of it is believed yet."""

    entry_id: str
    number: bytes
    header: bytes
    body: bytes

    @property
    def memories(self) -> int:
        """Memories it says it holds, 0 where that can't be read."""
        return read_count(self.number) or 0


@dataclass(frozen=True, slots=True)
class Turn:
    """What one turn of the ring gave: `suspects` were in the hands of a worker that died."""

    tenant_id: UUID
    suspects: list[Entry] = field(default_factory=list)
    fresh: list[Entry] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The door's answer. `earlier` is the outcome of the request that had the same idempotency key before."""

    nudge: bool
    earlier: str | None = None


class Door:
    """Where requests come in. One script call each; nothing is half done."""

    def __init__(self, client: redis.asyncio.Redis) -> None:
        """Take a client made by `connect_async`."""
        self._client = client
        self._room = Room()
        self._accept = BatchedScript(client, script("accept"))
        self._limits = _limits()
        self._idempotency_seconds = int(settings().idempotency_hours * 3600)

    async def accept(
        self,
        tenant_id: UUID,
        *,
        base: bytes,
        memories: int,
        form: Form,
        request_id: str,
        trace: str,
        body: bytes,
        idempotency: tuple[str, str] | None,
    ) -> Accepted:
        """Append one request's memories or touches to the tenant's stream.

        Args:
            idempotency: Digest of the caller's key, and the outcome to remember under it.

        Raises:
            BacklogFull: This tenant has too much waiting.
            Unavailable: All tenants together have, or Redis is full or away.
        """
        key_digest, outcome = idempotency or ("", "")
        entry = pack(base, memories, form, request_id, trace, body)
        keys = _accept_keys(tenant_id, key_digest)
        arguments: list[bytes | str | int] = [str(tenant_id), memories, len(body), *self._limits]
        arguments += [outcome, self._idempotency_seconds, NUDGE_MILLISECONDS, *entry]
        try:
            await self._check_room(len(body))
            answer = await self._accept(keys, arguments)
        except redis.RedisError as error:
            raise unavailable(error) from None
        if answer[0] == 1:
            return Accepted(nudge=bool(answer[2]))
        if answer[0] == 0:
            return Accepted(nudge=False, earlier=answer[1].decode())
        raise _refusal(answer[1].decode(), int(answer[2]), int(answer[3]))

    async def _check_room(self, size: int) -> None:
        if self._room.is_to_look(size):
            with suppress(redis.ResponseError):  # not allowed to us here: then Redis itself refuses
                self._room.note(await self._client.info("memory"))
        self._room.check()


def _accept_keys(tenant_id: UUID, key_digest: str) -> list[str]:
    return [
        stream_key(tenant_id),
        idempotency_key(tenant_id, key_digest),
        RING,
        RING_MEMBERS,
        HELD,
        BACKLOG,
        _NUDGE,
    ]


def _limits() -> tuple[int, int, int, int]:
    config = settings()
    return (
        config.tenant_backlog_entries,
        config.tenant_backlog_bytes,
        config.backlog_entries,
        config.backlog_bytes,
    )


def replay(tenant_id: UUID, entry: Entry) -> bool:
    """Append an entry that was set aside, by the door's script and within its limits. Returns whether to nudge.

    It keeps its base, by which the ledger knows it, and its first place in the order of speaking.

    Raises:
        BacklogFull: This tenant has too much waiting.
        Unavailable: All tenants together have, or Redis is full or away.
    """
    again = fields_of(entry.memories, replayed(entry.header, entry.entry_id), entry.body)
    return _append(client(), Room(), tenant_id, again)


def append(tenant_id: UUID, base: bytes, form: Form, request_id: str, body: bytes) -> None:
    """Append what may be lost, from a thread, without a long wait and without a nudge: the next drain takes it.

    Raises:
        BacklogFull: This tenant has too much waiting.
        Unavailable: All tenants together have, or Redis is full or away, or was a moment ago.
    """
    room = _room()
    if room.is_shut():
        raise Unavailable("the queue couldn't take this a moment ago", retry_after_seconds=APPEND_PAUSE_SECONDS)
    try:
        _append(_hasty(), room, tenant_id, pack(base, 0, form, request_id, "", body), nudge_milliseconds=0)
    except Unavailable:
        room.shut(APPEND_PAUSE_SECONDS)
        raise


def _append(
    through: redis.Redis,
    room: Room,
    tenant_id: UUID,
    entry: Sequence[bytes | int],
    nudge_milliseconds: int = NUDGE_MILLISECONDS,
) -> bool:
    _, memories, _, _, _, body = entry
    size = len(cast("bytes", body))
    arguments: list[Any] = [str(tenant_id), memories, size, *_limits(), "", 0, nudge_milliseconds, *entry]
    try:
        if room.is_to_look(size):
            with suppress(redis.ResponseError):  # not allowed to us here: then Redis itself refuses
                room.note(through.info("memory"))
        room.check()
        answer = _acceptance()(keys=_accept_keys(tenant_id, ""), args=arguments, client=through)
    except redis.RedisError as error:
        raise unavailable(error) from None
    if answer[0] == 1:
        return bool(answer[2])
    raise _refusal(answer[1].decode(), int(answer[2]), int(answer[3]))


def unavailable(error: redis.RedisError) -> Unavailable:
    """What a caller is told when Redis can't take more or can't be reached."""
    if "OOM" in str(error):
        return Unavailable("the queue's memory is full", retry_after_seconds=5)
    return Unavailable("the queue can't be reached", retry_after_seconds=2)


def _refusal(which: str, held: int, limit: int) -> BacklogFull | Unavailable:
    whose, what = which.split("_")
    unit = "requests" if what == "entries" else "bytes"
    if whose == "tenant":
        return BacklogFull(f"{held} {unit} of this tenant are waiting, the limit is {limit}", retry_after_seconds=2)
    return Unavailable(f"{held} {unit} are waiting, the limit is {limit}", retry_after_seconds=2)


class Drainage:
    """The workers' end of the streams.

    A worker holds one tenant at a time, under a lease. While it does, nobody else has that tenant's turn, so no
    entry needs a claim of its own. A lease that lapses says that its worker died, and what that had in hand
    comes again, entry by entry.
    """

    def __init__(self, client: redis.Redis) -> None:
        """Take a client made by `connect`."""
        self._client = client
        self._take = client.register_script(script("take"))
        self._clock = (0, 0.0)
        self._settle = client.register_script(script("settle"))

    def take(self, *, first: bool) -> Turn | None:
        """Turn the ring once: hold the next tenant and get its entries; None when nobody has any.

        Every turn must be ended by a `settle` that frees the tenant.

        Args:
            first: Whether a slice begins, so that the nudge which woke it must be taken down.
        """
        config = settings()
        limits = [config.drain_rows, config.drain_entries, config.drain_bytes]
        lease = int(config.claim_idle_seconds * 1000)
        answer = self._take(
            keys=[RING, RING_MEMBERS, HELD, TURNS, _NUDGE],
            args=[STREAM_PREFIX, *limits, lease, SUSPECTS_A_TURN, "first" if first else ""],
        )
        if not answer:
            return None
        tenant, suspects, now_ms, *flat = answer
        self._clock = (now_ms, time.monotonic())
        entries = list(_entries(flat))
        return Turn(UUID(tenant.decode()), entries[:suspects], entries[suspects:])

    def waited_seconds(self, entry: Entry) -> float:
        """How long ago an entry of the last turn was accepted, by Redis's clock, without asking it."""
        now_ms, at = self._clock
        return max(now_ms - int(entry.entry_id.partition("-")[0]), 0) / 1000 + time.monotonic() - at

    def settle(self, tenant_id: UUID, entries: Sequence[Entry] = (), *, free: bool) -> int:
        """Delete entries whose fate is committed. Returns how many the stream still has.

        Args:
            tenant_id: Whose turn it is.
            entries: Those that are stored or set aside.
            free: Whether the turn is over, so that the tenant goes back to the ring if it has more.
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

    def count_attempt(self, tenant_id: UUID, entry: Entry) -> int:
        """Count a try at one entry by itself, before it starts: a try that kills its process counts too.

        Returns:
            Which try this is, from 1. Call `forgive` when it fails for no fault of the entry's.
        """
        return self._client.hincrby(ATTEMPTS, f"{tenant_id}:{entry.entry_id}", 1)

    def forgive(self, tenant_id: UUID, entry: Entry) -> None:
        """Take back the count of a try that failed because the database was away."""
        self._client.hincrby(ATTEMPTS, f"{tenant_id}:{entry.entry_id}", -1)


def _entries(flat: list[Any]) -> Iterator[Entry]:
    parts = iter(flat)
    for entry_id, number, header, body in zip(parts, parts, parts, parts, strict=True):
        yield Entry(entry_id.decode(), number, header, body)


@cache
def client() -> redis.Redis:
    """The process's synchronous client."""
    return connect()


@cache
def drainage() -> Drainage:
    """The process's end of the streams."""
    return Drainage(client())


@cache
def backlog() -> Backlog:
    """The process's view of what waits."""
    return Backlog(client())


@cache
def _acceptance() -> Script:
    return client().register_script(script("accept"))


@cache
def _hasty() -> redis.Redis:
    return connect(APPEND_TIMEOUT_SECONDS, retries=0)


@cache
def _room() -> Room:
    return Room()


def close() -> None:
    """Drop the connections: at shutdown, and between tests."""
    for opened in (client, _hasty):
        if opened.cache_info().currsize:
            opened().close()
    for made in (client, _hasty, drainage, backlog, _acceptance, _room):
        made.cache_clear()
