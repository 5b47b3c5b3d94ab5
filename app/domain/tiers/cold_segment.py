"""Encode and decode cold-storage segments: objects with up to a thousand sealed records of one tenant and an index.

    8   magic, including the layout version
    4   number of records
    16  tenant
    76  for each record: memory, key, text version, start, length, checksum
    16  checksum of all of the above
        the records, one after another

Numbers are big-endian, checksums BLAKE2b. A record moves between segments unchanged because its associated data doesn't
include its location. Every segment that is read is validated before use, lengths first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

MAGIC: Final = b"EBBSEG\x00\x01"
RECORDS_MAX: Final = 4096
"""Maximum number of records in a segment; usually at most `RECORDS`."""
RECORDS: Final = 1000
RECORD_MAX_BYTES: Final = 8 << 20
"""Maximum size of a record; the limits on texts, metadata and links are far lower."""
CHECKSUM_BYTES: Final = 16

_HEAD: Final = Struct(">8sI16s")
_ENTRY: Final = Struct(">16s16sIQI16s")


class DamagedSegment(Exception):
    """A segment or record fails validation. The message is a fixed reason."""


class SealedRecord(NamedTuple):
    """A record to be written to a segment.

    Attributes:
        memory_id: The memory it contains.
        key_id: The key that decrypts it.
        text_version: Version of the memory's text when it was sealed.
        body: The encrypted bytes.
    """

    memory_id: UUID
    key_id: UUID
    text_version: int
    body: bytes


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """Index entry of a record in a segment.

    Attributes:
        start: Offset of the record's first byte in the segment.
        length: Size of the record in bytes.
        checksum: Checksum of the record's bytes.
    """

    memory_id: UUID
    key_id: UUID
    text_version: int
    start: int
    length: int
    checksum: bytes


class Segment(NamedTuple):
    """An encoded segment.

    Attributes:
        data: Content of the object.
        entries: Index of its records, in the given order.
    """

    data: bytes
    entries: list[SegmentEntry]


def checksum(data: bytes) -> bytes:
    """Return a 16-byte checksum."""
    return blake2b(data, digest_size=CHECKSUM_BYTES).digest()


def encode(tenant_id: UUID, records: Sequence[SealedRecord]) -> Segment:
    """Encode records as a segment.

    Raises:
        ValueError: There are no or too many records, or a record is empty or too large.
    """
    if not 0 < len(records) <= RECORDS_MAX:
        raise ValueError(f"{len(records)} records: a segment has 1 to {RECORDS_MAX}")
    if any(not 0 < len(record.body) <= RECORD_MAX_BYTES for record in records):
        raise ValueError(f"a record has 1 to {RECORD_MAX_BYTES} bytes")
    start = _HEAD.size + len(records) * _ENTRY.size + CHECKSUM_BYTES
    entries = []
    for memory_id, key_id, text_version, body in records:
        entries.append(SegmentEntry(memory_id, key_id, text_version, start, len(body), checksum(body)))
        start += len(body)
    head = _HEAD.pack(MAGIC, len(records), tenant_id.bytes) + b"".join(map(_packed, entries))
    return Segment(b"".join([head, checksum(head), *(record.body for record in records)]), entries)


def _packed(entry: SegmentEntry) -> bytes:
    return _ENTRY.pack(
        entry.memory_id.bytes, entry.key_id.bytes, entry.text_version, entry.start, entry.length, entry.checksum
    )


def decode(tenant_id: UUID, data: bytes) -> list[SegmentEntry]:
    """Decode and validate a segment's index; record bodies are not checked yet.

    Raises:
        DamagedSegment: The data isn't a segment of this tenant, is truncated, or its index was modified.
    """
    if len(data) < _HEAD.size:
        raise DamagedSegment("truncated")
    magic, count, owner = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise DamagedSegment("not a segment")
    ends = _HEAD.size + count * _ENTRY.size
    if not 0 < count <= RECORDS_MAX or len(data) < ends + CHECKSUM_BYTES:
        raise DamagedSegment("truncated")
    if checksum(data[:ends]) != data[ends : ends + CHECKSUM_BYTES]:
        raise DamagedSegment("wrong checksum of its index")
    if owner != tenant_id.bytes:
        raise DamagedSegment("belongs to another tenant")
    entries = [
        SegmentEntry(UUID(bytes=memory_id), UUID(bytes=key_id), version, start, length, check)
        for memory_id, key_id, version, start, length, check in _ENTRY.iter_unpack(data[_HEAD.size : ends])
    ]
    begins = ends + CHECKSUM_BYTES
    for entry in entries:
        if entry.start != begins or not 0 < entry.length <= RECORD_MAX_BYTES:
            raise DamagedSegment("invalid record offsets in its index")
        begins += entry.length
    return entries


def record_body(data: bytes, entry: SegmentEntry, *, offset: int = 0) -> bytes:
    """Return the bytes of a record after checking them.

    Args:
        data: The segment, or a range of it.
        entry: The record's index entry.
        offset: Offset of the range in the segment.

    Raises:
        DamagedSegment: The record is truncated or was modified.
    """
    start = entry.start - offset
    body = data[start : start + entry.length] if start >= 0 else b""
    if len(body) != entry.length:
        raise DamagedSegment("truncated")
    if checksum(body) != entry.checksum:
        raise DamagedSegment("wrong checksum of its content")
    return body
