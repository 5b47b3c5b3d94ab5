"""An envelope: one request's memories on their way through the tenant's stream, as the bytes that were checked."""

from __future__ import annotations

import msgspec

from app.domain.decoding import Format

VERSION = b"1"
_FORMS: dict[bytes, Format] = {b"j": "json", b"n": "ndjson"}
_BASE_BYTES = 16
_COUNT_DIGITS = 4


class Malformed(Exception):
    """The entry can't be an envelope of ours. The message is a fixed reason, never its content."""


class Envelope(msgspec.Struct, frozen=True, gc=False):
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


def pack(base: bytes, memories: int, form: Format, request_id: str, trace: str, body: bytes) -> list[bytes | int]:
    """The fields of a stream entry: the number of memories, a header, the body. `take.lua` relies on their order."""
    header = VERSION + form[:1].encode() + base + f"{request_id} {trace}".encode()
    return [b"n", memories, b"h", header, b"e", body]


def unpack(entry_id: str, count: bytes, header: bytes, body: bytes) -> Envelope:
    """The envelope in a stream entry.

    Raises:
        Malformed: A field is missing or wrong, or the version is unknown.
    """
    if header[:1] != VERSION:
        raise Malformed("unknown envelope version")
    form = _FORMS.get(header[1:2])
    base, names = header[2:18], header[18:]
    memories = read_count(count)
    if form is None or len(base) != _BASE_BYTES or memories is None:
        raise Malformed("envelope header out of shape")
    request_id, _, trace = names.decode("latin-1").partition(" ")
    return Envelope(entry_id, base, memories, form, request_id, trace, body)


def read_count(count: bytes) -> int | None:
    """The number of memories an entry says it holds; None where it isn't one that the door writes."""
    return int(count) if count.isdigit() and len(count) <= _COUNT_DIGITS else None
