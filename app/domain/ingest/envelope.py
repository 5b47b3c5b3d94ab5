"""Encode and decode envelopes: a request's memories or touches (memory uses) as an entry of the tenant's stream."""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from app.domain.ingest.sources import SOURCES, UNKNOWN_WRITER, Writer

VERSION = b"1"
Form = Literal["json", "ndjson", "touches"]
_FORMS: dict[bytes, Form] = {b"j": "json", b"n": "ndjson", b"t": "touches"}
_BASE_BYTES = 16
_HEADER_BYTES = 2 + _BASE_BYTES
_COUNT_DIGITS = 4
_MILLISECONDS = re.compile(r"[0-9]{1,15}")
_ENTRY_ID = re.compile(r"[0-9]{1,15}-[0-9]{1,15}")


class MalformedEnvelope(Exception):
    """An entry that isn't a valid envelope. The message is a fixed reason, never content."""


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """An entry of a tenant's stream.

    Attributes:
        entry_id: Id of the entry, `milliseconds-sequence` by Redis's clock; defines the order of acceptance.
        base: Id of the first memory, 16 bytes; memory `i` has the id `base + i`.
        memories: Number of memories in the body; 0 for touches.
        form: `json` or `ndjson` for memories, or `touches` (see `app.domain.ingest.uses.Touches`).
        trace: W3C trace context, or empty.
        body: The request's raw body.
        first_entry_id: Original id of a replayed dead letter; otherwise empty.
        sent_ms: Time at which the sender sent memories with `written`, by its own clock, in milliseconds since 1970;
            None for other requests.
        writer: The API key of the request and its source; unknown in entries of earlier versions.
    """

    entry_id: str
    base: bytes
    memories: int
    form: Form
    trace: str
    body: bytes
    first_entry_id: str = ""
    sent_ms: int | None = None
    writer: Writer = UNKNOWN_WRITER

    @property
    def position(self) -> str:
        """Position in the order of acceptance: the original entry id, also after a replay."""
        return self.first_entry_id or self.entry_id

    @property
    def accepted_ms(self) -> int:
        """Time at which Redis first accepted the entry, in milliseconds since 1970."""
        return int(self.position.partition("-")[0])


def pack(
    base: bytes, memories: int, form: Form, trace: str, body: bytes, *, sent_ms: int | None = None
) -> list[bytes | int]:
    """Return the fields of a stream entry: number of memories, header, body. `take.lua` relies on their order.

    The names in the header begin with a space: earlier versions stored the request id of the caller before it.
    """
    names = f" {trace}" if sent_ms is None else f" {trace}  {sent_ms}"
    return stream_fields(memories, VERSION + form[:1].encode() + base + names.encode(), body)


_WRITER: Final = re.compile(rf"(.*);([0-9A-Za-z]{{1,64}});({'|'.join(SOURCES)})")


def add_writer(trace: str, writer: Writer) -> str:
    """Return a trace context followed by the writer.

    Workers of versions that don't know writers read both as a trace context, find it invalid, and ignore it.
    """
    return trace if writer.key_id is None else f"{trace};{writer.key_id};{writer.source}"


def _split_writer(text: str) -> tuple[str, Writer]:
    """Return the trace context and the writer."""
    found = _WRITER.fullmatch(text)
    if found is None:
        return text, UNKNOWN_WRITER
    trace, key_id, given = found.groups()
    return trace, Writer(key_id, next(source for source in SOURCES if source == given))


def stream_fields(memories: int, header: bytes, body: bytes) -> list[bytes | int]:
    """Return the fields of a stream entry with this header."""
    return [b"n", memories, b"h", header, b"e", body]


def first_position(entry_id: str, header: bytes) -> str:
    """Return an entry's original id, or the current one if its header contains none."""
    try:
        return decode_envelope(entry_id, b"0", header, b"").position
    except MalformedEnvelope:
        return entry_id


def replay_header(header: bytes, entry_id: str) -> bytes:
    """Return the header for replaying an entry; this header contains the entry's original id, and no request id.

    The original id of an entry that was replayed before is preserved. The header of a malformed entry is returned
    unchanged, so that decoding fails again.

    Args:
        entry_id: The entry's current id in the stream.
    """
    try:
        envelope = decode_envelope(entry_id, b"0", header, b"")
    except MalformedEnvelope:
        return header
    return _rewrite(header, envelope, envelope.trace, envelope.position)


def strip_caller_ids(header: bytes, *, keep_trace: bool) -> bytes:
    """Return a header without the caller's request id, which earlier versions stored and which may contain a name.

    A malformed header is returned unchanged.

    Args:
        keep_trace: Keep the trace context, which the caller may have chosen as well.
    """
    try:
        envelope = decode_envelope("0-0", b"0", header, b"")
    except MalformedEnvelope:
        return header
    return _rewrite(header, envelope, envelope.trace if keep_trace else "", envelope.first_entry_id)


def _rewrite(header: bytes, envelope: Envelope, trace: str, first_entry_id: str) -> bytes:
    """Return a header without a request id, with this trace context and original entry id."""
    names = f" {add_writer(trace, envelope.writer)}"
    if first_entry_id or envelope.sent_ms is not None:
        names += f" {first_entry_id}"
    if envelope.sent_ms is not None:
        names += f" {envelope.sent_ms}"
    return header[:_HEADER_BYTES] + names.encode("latin-1")


def decode_envelope(entry_id: str, count: bytes, header: bytes, body: bytes) -> Envelope:
    """Decode the envelope in a stream entry.

    Raises:
        MalformedEnvelope: A field is missing or invalid, or the version is unknown.
    """
    if header[:1] != VERSION:
        raise MalformedEnvelope("unknown envelope version")
    form = _FORMS.get(header[1:2])
    base, names = header[2:_HEADER_BYTES], header[_HEADER_BYTES:].decode("latin-1")
    memories = read_count(count)
    if form is None or len(base) != _BASE_BYTES or memories is None:
        raise MalformedEnvelope("envelope header out of shape")
    # Only replays contain the third value, the original entry id, and only delayed writes the fourth.
    _, trace, first_entry_id, sent = [*names.split(" ", 3), "", "", ""][:4]
    if (first_entry_id and not _ENTRY_ID.fullmatch(first_entry_id)) or (sent and not _MILLISECONDS.fullmatch(sent)):
        raise MalformedEnvelope("envelope header out of shape")
    trace, writer = _split_writer(trace)
    sent_ms = int(sent) if sent else None
    return Envelope(entry_id, base, memories, form, trace, body, first_entry_id, sent_ms, writer)


def read_count(count: bytes) -> int | None:
    """Return an entry's number of memories, or None if the field can't have been written by `pack`."""
    return int(count) if count.isdigit() and len(count) <= _COUNT_DIGITS else None
