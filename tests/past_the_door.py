"""Append entries directly to a tenant's stream, as only a bug or an intruder could: nothing is validated."""

from __future__ import annotations

import os
import time
from uuid import UUID

import redis

from app.clients.redis import connection
from app.clients.redis.accept_arguments import NUDGE, accept_keys
from app.domain.ingest.envelope import pack
from app.domain.ingest.ids import generate_base

PLENTY = 1 << 40


def push(client: redis.Redis, tenant_id: str, body: bytes, memories: int = 1) -> bytes:
    """Append a body to the tenant's stream in a well-formed envelope and return the entry's id."""
    base = generate_base(time.time_ns() // 1_000_000, os.urandom(8))
    number, header = pack(base, memories, "json", "", body)[1:4:2]
    return push_raw(client, tenant_id, str(number).encode(), bytes(header), body)


def push_raw(client: redis.Redis, tenant_id: str, number: bytes, header: bytes, body: bytes) -> bytes:
    """Append an entry with arbitrary bytes for the number of memories and the header."""
    keys = accept_keys(UUID(tenant_id))
    # Otherwise the door would assume that a worker has already been woken.
    keys[keys.index(NUDGE)] = f"{connection.NUDGE_PREFIX}nobody"
    limits = [PLENTY] * 5
    said = int(number) if number.isdigit() and len(number) < 10 else 0
    arguments: list[str | int | bytes] = [
        tenant_id,
        said,
        len(body),
        *limits,
        "",
        1,
        1000,
        "n",
        number,
        "h",
        header,
        "e",
        body,
    ]
    accept = client.register_script(connection.script("accept"))
    answer = accept(keys=keys, args=arguments)
    assert answer[0] == 1
    entry_id: bytes = answer[1]
    return entry_id
