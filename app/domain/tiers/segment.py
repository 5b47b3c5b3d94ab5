"""Segments of cold storage: up to a thousand sealed records of a tenant in one object, each found by its place.

    8   magic, with the version of this layout
    4   number of records
    16  tenant
    76  for each record: memory, key, version of its text, where it begins, its length, its checksum
    16  checksum of all that
        the records, one after another

Numbers are big-endian, checksums BLAKE2b. A record is moved from one segment to another as it is: what it is bound to
says nothing of where it lies. What is read is believed only after it was checked, lengths before all.
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
"""Records that a segment may have; as a rule it has at most `RECORDS`."""
RECORDS: Final = 1000
RECORD_MAX_BYTES: Final = 8 << 20
"""Of one record; texts, metadata and links have limits far below."""
CHECKSUM_BYTES: Final = 16

_HEAD: Final = Struct(">8sI16s")
_ENTRY: Final = Struct(">16s16sIQI16s")


class Damaged(Exception):
    """A segment or record isn't what was written. The message is a fixed reason."""


class Sealed(NamedTuple):
    """A record on its way into a segment.

    Attributes:
        memory_id: Whose it is.
        key_id: Of the key that opens it.
        text_version: Of the memory's text when it was sealed.
        body: Its bytes.
    """

    memory_id: UUID
    key_id: UUID
    text_version: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a record lies in a segment, and what it must be.

    Attributes:
        start: Its first byte.
        length: Its bytes.
        checksum: Of these bytes.
    """

    memory_id: UUID
    key_id: UUID
    text_version: int
    start: int
    length: int
    checksum: bytes


class Segment(NamedTuple):
    """A segment as it is written.

    Attributes:
        data: The object.
        entries: Its records, in the order given.
    """

    data: bytes
    entries: list[Entry]


def checksum(data: bytes) -> bytes:
    """What tells that bytes are the same, 16 bytes."""
    return blake2b(data, digest_size=CHECKSUM_BYTES).digest()


def encode(tenant_id: UUID, records: Sequence[Sealed]) -> Segment:
    """A segment of these records.

    Raises:
        ValueError: There are none, or too many, or one is too large.
    """
    if not 0 < len(records) <= RECORDS_MAX:
        raise ValueError(f"{len(records)} records: a segment has 1 to {RECORDS_MAX}")
    if any(not 0 < len(record.body) <= RECORD_MAX_BYTES for record in records):
        raise ValueError(f"a record has 1 to {RECORD_MAX_BYTES} bytes")
    start = _HEAD.size + len(records) * _ENTRY.size + CHECKSUM_BYTES
    entries = []
    for memory_id, key_id, text_version, body in records:
        entries.append(Entry(memory_id, key_id, text_version, start, len(body), checksum(body)))
        start += len(body)
    head = _HEAD.pack(MAGIC, len(records), tenant_id.bytes) + b"".join(map(_packed, entries))
    return Segment(b"".join([head, checksum(head), *(record.body for record in records)]), entries)


def _packed(entry: Entry) -> bytes:
    return _ENTRY.pack(
        entry.memory_id.bytes, entry.key_id.bytes, entry.text_version, entry.start, entry.length, entry.checksum
    )


def decode(tenant_id: UUID, data: bytes) -> list[Entry]:
    """The records of a segment; their bodies aren't looked at yet.

    Raises:
        Damaged: It isn't a segment of this tenant, is cut off, or its table was changed.
    """
    if len(data) < _HEAD.size:
        raise Damaged("truncated")
    magic, count, owner = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise Damaged("not a segment")
    ends = _HEAD.size + count * _ENTRY.size
    if not 0 < count <= RECORDS_MAX or len(data) < ends + CHECKSUM_BYTES:
        raise Damaged("truncated")
    if checksum(data[:ends]) != data[ends : ends + CHECKSUM_BYTES]:
        raise Damaged("checksum of its table")
    if owner != tenant_id.bytes:
        raise Damaged("another tenant's")
    entries = [
        Entry(UUID(bytes=memory_id), UUID(bytes=key_id), version, start, length, check)
        for memory_id, key_id, version, start, length, check in _ENTRY.iter_unpack(data[_HEAD.size : ends])
    ]
    begins = ends + CHECKSUM_BYTES
    for entry in entries:
        if entry.start != begins or not 0 < entry.length <= RECORD_MAX_BYTES:
            raise Damaged("places of its records")
        begins += entry.length
    return entries


def body(data: bytes, entry: Entry, *, offset: int = 0) -> bytes:
    """The bytes of a record, checked.

    Args:
        data: The segment, or a range of it.
        entry: Where the record is in the segment.
        offset: Where in the segment the range begins.

    Raises:
        Damaged: It is cut off, or was changed.
    """
    start = entry.start - offset
    found = data[start : start + entry.length] if start >= 0 else b""
    if len(found) != entry.length:
        raise Damaged("truncated")
    if checksum(found) != entry.checksum:
        raise Damaged("checksum")
    return found
