"""An envelope: one request's memories or touches on their way through the tenant's stream, as checked bytes."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

VERSION = b"1"
Form = Literal["json", "ndjson", "touches"]
_FORMS: dict[bytes, Form] = {b"j": "json", b"n": "ndjson", b"t": "touches"}
_BASE_BYTES = 16
_HEADER_BYTES = 2 + _BASE_BYTES
_COUNT_DIGITS = 4
_ENTRY_ID = re.compile(r"[0-9]{1,15}-[0-9]{1,15}")


class Malformed(Exception):
    """The entry can't be an envelope of ours. The message is a fixed reason, never its content."""


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """One entry of a tenant's stream.

    Attributes:
        entry_id: The stream's id, `milliseconds-sequence` by Redis's clock; gives the order of speaking.
        base: First memory's id, 16 bytes; memory `i` is `base + i`.
        memories: How many memories the body holds; 0 for touches.
        form: `json` or `ndjson`, of memories, or `touches` (see `domain.touch.Touches`).
        request_id: The request that brought it.
        trace: W3C trace context, or nothing.
        body: The request's body as it came.
        first_entry_id: The id it had when it came first, where it is a dead letter's replay; else nothing.
    """

    entry_id: str
    base: bytes
    memories: int
    form: Form
    request_id: str
    trace: str
    body: bytes
    first_entry_id: str = ""

    @property
    def position(self) -> str:
        """Its place in the order of speaking, which a replay keeps: the id it had first."""
        return self.first_entry_id or self.entry_id

    @property
    def accepted_ms(self) -> int:
        """When Redis took it first, in milliseconds since 1970."""
        return int(self.position.partition("-")[0])


def pack(base: bytes, memories: int, form: Form, request_id: str, trace: str, body: bytes) -> list[bytes | int]:
    """The fields of a stream entry: the number of memories, a header, the body. `take.lua` relies on their order."""
    header = VERSION + form[:1].encode() + base + f"{request_id} {trace}".encode()
    return fields_of(memories, header, body)


def fields_of(memories: int, header: bytes, body: bytes) -> list[bytes | int]:
    """The fields of a stream entry with this header."""
    return [b"n", memories, b"h", header, b"e", body]


def first_position(entry_id: str, header: bytes) -> str:
    """The id that an entry had when it came first; its own where its header says nothing else."""
    try:
        return unpack(entry_id, b"0", header, b"").position
    except Malformed:
        return entry_id


def replayed(header: bytes, entry_id: str) -> bytes:
    """The header of an entry that goes into the stream once more, with the id that it had first.

    One that was replayed before keeps its first id; one that is no envelope's stays as it is, and fails again.

    Args:
        entry_id: The entry's id in the stream.
    """
    try:
        envelope = unpack(entry_id, b"0", header, b"")
    except Malformed:
        return header
    names = f"{envelope.request_id} {envelope.trace} {envelope.position}"
    return header[:_HEADER_BYTES] + names.encode("latin-1")


def unpack(entry_id: str, count: bytes, header: bytes, body: bytes) -> Envelope:
    """The envelope in a stream entry.

    Raises:
        Malformed: A field is missing or wrong, or the version is unknown.
    """
    if header[:1] != VERSION:
        raise Malformed("unknown envelope version")
    form = _FORMS.get(header[1:2])
    base, names = header[2:_HEADER_BYTES], header[_HEADER_BYTES:].decode("latin-1")
    memories = read_count(count)
    if form is None or len(base) != _BASE_BYTES or memories is None:
        raise Malformed("envelope header out of shape")
    # The third is only in a replay, and unknown to older versions.
    request_id, trace, first_entry_id = [*names.split(" ", 2), "", ""][:3]
    if first_entry_id and not _ENTRY_ID.fullmatch(first_entry_id):
        raise Malformed("envelope header out of shape")
    return Envelope(entry_id, base, memories, form, request_id, trace, body, first_entry_id)


def read_count(count: bytes) -> int | None:
    """The number of memories an entry says it holds; None where it isn't one that the door writes."""
    return int(count) if count.isdigit() and len(count) <= _COUNT_DIGITS else None
