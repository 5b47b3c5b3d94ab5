"""What waits in a tenant's stream, in pages."""

from __future__ import annotations

from typing import cast
from uuid import UUID

from app.clients.redis.redis import stream_key
from app.clients.redis.stream import client
from app.domain.ingest.envelope import Envelope, Malformed, unpack


def page(tenant_id: UUID, after: str, limit: int) -> tuple[list[Envelope], str | None]:
    """Entries after a place, `0-0` at first.

    Returns:
        Those that are envelopes; and where to go on, None at the end.
    """
    found = cast(
        "list[tuple[bytes, dict[bytes, bytes]]]", client().xrange(stream_key(tenant_id), min=f"({after}", count=limit)
    )
    envelopes = []
    for entry_id, fields in found:
        try:
            envelopes.append(unpack(entry_id.decode(), *(fields.get(name, b"") for name in (b"n", b"h", b"e"))))
        except Malformed:
            continue  # the drain sets it aside, and nobody can tell whom it is about
    return envelopes, found[-1][0].decode() if len(found) == limit else None
