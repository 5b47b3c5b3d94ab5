"""An envelope: one request's memories on their way through the tenant's stream, as the bytes that were checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.domain.memory import Format

VERSION = b"1"


class Malformed(Exception):
    """The entry can't be an envelope of ours. The message is a fixed reason, never its content."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """One entry of a tenant's stream.

    Attributes:
        entry_id: The stream's id, `milliseconds-sequence` by Redis's clock; gives the order of speaking.
        base: First memory's id, 16 bytes; memory `i` is `base + i`.
        memories: How many memories the body holds.
        form: `json` or `ndjson`.
        request_id: The request that brought it.
        trace: W3C trace context, or nothing.
        body: The request's body as it came.
    """

    entry_id: str
    base: bytes
    memories: int
    form: Format
    request_id: str
    trace: str
    body: bytes

    @property
    def accepted_ms(self) -> int:
        """When Redis took it, in milliseconds since 1970."""
        return int(self.entry_id.partition("-")[0])


def pack(base: bytes, memories: int, form: Format, request_id: str, trace: str, body: bytes) -> list[bytes | str | int]:
    """The fields of a stream entry. `take.lua` relies on their order: the count is second, the body last."""
    return ["v", VERSION, "n", memories, "b", base, "f", form, "r", request_id, "t", trace, "e", body]


def unpack(entry_id: str, fields: Mapping[bytes, bytes]) -> Envelope:
    """The envelope in a stream entry.

    Raises:
        Malformed: A field is missing or wrong, or the version is unknown.
    """
    if fields.get(b"v") != VERSION:
        reason = "unknown envelope version"
        raise Malformed(reason)
    try:
        base, count, form = fields[b"b"], int(fields[b"n"]), fields[b"f"].decode()
        request_id, trace, body = fields[b"r"].decode(), fields[b"t"].decode(), fields[b"e"]
    except (KeyError, ValueError):
        reason = "envelope field missing or wrong"
        raise Malformed(reason) from None
    if len(base) != 16 or count < 1 or form not in ("json", "ndjson"):  # noqa: PLR2004 - a UUID's bytes
        reason = "envelope field out of range"
        raise Malformed(reason)
    return Envelope(entry_id, base, count, "ndjson" if form == "ndjson" else "json", request_id, trace, body)
