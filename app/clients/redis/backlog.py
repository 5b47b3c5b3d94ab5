"""Inspect the pending entries of the ingest streams, for reads of single memories and for dashboards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

import redis

from app.clients.redis.connection import (
    BACKLOG,
    HELD,
    QUEUE,
    RING_MEMBERS,
    SHARED_TURNS,
    STREAM_PREFIX,
    script,
    stream_key,
)
from app.domain.ingest.envelope import Envelope, MalformedEnvelope, decode_envelope
from app.domain.ingest.ids import extract_base, extract_unix_ms
from app.domain.ingest.redis_identity import TAIL_MS, Mark

# Tolerated difference between an API host's clock and Redis's when a pending memory is looked up by its id.
CLOCK_SLACK_MS = 10_000
TENANTS_COMPARED = 5000
_FIND_PAGE = 200


class Backlog:
    """Read access to the pending entries of the ingest streams."""

    def __init__(self, client: redis.Redis) -> None:
        """Use a client from `connect`."""
        self._client = client

    def find(self, tenant_id: UUID, *memory_ids: UUID) -> Envelope | None:
        """Return the first pending envelope with one of these memories, searching around the times in their ids."""
        if not memory_ids:
            return None
        bases, moments = {*map(extract_base, memory_ids)}, [*map(extract_unix_ms, memory_ids)]
        start, end = f"{max(min(moments) - CLOCK_SLACK_MS, 0)}", f"{max(moments) + CLOCK_SLACK_MS}"
        while True:
            page = cast("list[Any]", self._client.xrange(stream_key(tenant_id), start, end, count=_FIND_PAGE))
            for entry_id, fields in page:
                envelope = _envelope(entry_id, fields)
                if envelope is not None and envelope.base in bases:
                    return envelope
            if len(page) < _FIND_PAGE:
                return None
            start = "(" + page[-1][0].decode()

    def memories(self, tenant_id: UUID | None = None) -> int:
        """Return the number of memories pending storage, for one tenant or all.

        Entries that another program wrote into a stream were never counted, so the counter may be below 0 for a moment.
        """
        return max(int(self._client.hget(BACKLOG, f"{tenant_id}:memories" if tenant_id else "memories") or 0), 0)

    def entries(self, tenant_id: UUID | None = None) -> int:
        """Return the number of requests pending storage, for one tenant or all."""
        if tenant_id is not None:
            return self._client.xlen(stream_key(tenant_id))
        return max(int(self._client.hget(BACKLOG, "entries") or 0), 0)

    def is_shared(self) -> bool:
        """Return True if several tenants had entries a moment ago; then the drain takes short turns."""
        return bool(self._client.exists(SHARED_TURNS))

    def oldest_ms(self, tenant_ids: Sequence[UUID] | None = None) -> int | None:
        """Return the acceptance time of the oldest pending request, in milliseconds since 1970; None if there is none.

        Args:
            tenant_ids: Only requests of these tenants; None for all tenants.
        """
        waiting = [str(t) for t in tenant_ids] if tenant_ids is not None else self._waiting()
        with self._client.pipeline(transaction=False) as pipe:
            for tenant in waiting:
                pipe.xrange(stream_key(tenant), count=1)
            firsts = [page[0][0] for page in pipe.execute() if page]
        return min((int(entry_id.partition(b"-")[0]) for entry_id in firsts), default=None)

    def unaccounted(self) -> int | None:
        """Return the number of requests that are counted as pending but missing from the streams.

        It is above 0 if a stream was lost, or if its tenant is neither on the ring nor under a lease. None if more than
        `TENANTS_COMPARED` tenants have pending requests.
        """
        keys = (RING_MEMBERS, HELD, BACKLOG)
        answer = cast(
            "list[int]", self._client.eval(script("standing"), len(keys), *keys, STREAM_PREFIX, TENANTS_COMPARED)
        )
        return answer[0] - answer[1] if answer else None

    def edges(self, tenant_ids: Sequence[UUID]) -> dict[UUID, tuple[str, str]]:
        """Return the first and the last pending entry's id by tenant; tenants without pending requests are omitted."""
        keys = [stream_key(tenant_id) for tenant_id in tenant_ids]
        ids = [
            entry_id.decode() for entry_id in cast("list[bytes]", self._client.eval(script("edges"), len(keys), *keys))
        ]
        pairs = zip(tenant_ids, ids[::2], ids[1::2], strict=True)
        return {tenant_id: (first, last) for tenant_id, first, last in pairs if first}

    def beat(self, expected: Mark) -> int | None:
        """Set `beat` of the mark (see `connection_check`) to Redis's clock; return it in milliseconds since 1970.

        If Redis has another epoch than expected, or its beat is more than `TAIL_MS` behind the expected beat, change
        nothing and return None.
        """
        beat = self._client.eval(script("beat"), 1, QUEUE, expected.epoch or "", expected.beat - TAIL_MS)
        return None if beat is None else int(cast("bytes", beat))

    def now_ms(self) -> int:
        """Return Redis's clock, in milliseconds since 1970."""
        seconds, microseconds = self._client.time()
        return seconds * 1000 + microseconds // 1000

    def _waiting(self) -> list[str]:
        on_ring = cast("set[bytes]", self._client.smembers(RING_MEMBERS))
        leased = cast("list[bytes]", self._client.zrange(HELD, 0, -1))
        return [tenant.decode() for tenant in {*on_ring, *leased}]


def _envelope(entry_id: bytes, fields: dict[bytes, bytes]) -> Envelope | None:
    try:
        return decode_envelope(entry_id.decode(), fields.get(b"n", b""), fields.get(b"h", b""), fields.get(b"e", b""))
    except MalformedEnvelope:
        return None
