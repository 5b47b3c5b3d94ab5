"""Page through the pending entries of a tenant's stream."""

from __future__ import annotations

from typing import cast
from uuid import UUID

from app.clients.redis.connection import stream_key
from app.clients.redis.stream import client
from app.domain.ingest.envelope import Envelope, MalformedEnvelope, decode_envelope


def read_page(tenant_id: UUID, after: str, limit: int) -> tuple[list[Envelope], str | None]:
    """Return the entries after a position, initially `0-0`.

    Returns:
        The valid envelopes, and the position for the next page; None after the last page.
    """
    entries = cast(
        "list[tuple[bytes, dict[bytes, bytes]]]", client().xrange(stream_key(tenant_id), min=f"({after}", count=limit)
    )
    envelopes = []
    for entry_id, fields in entries:
        try:
            envelopes.append(
                decode_envelope(entry_id.decode(), *(fields.get(name, b"") for name in (b"n", b"h", b"e")))
            )
        except MalformedEnvelope:
            continue  # the drain turns it into a dead letter; its subject is unknown
    return envelopes, entries[-1][0].decode() if len(entries) == limit else None
