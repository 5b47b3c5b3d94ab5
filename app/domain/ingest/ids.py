"""Memory ids and sequence numbers, which define the order of acceptance.

A request's memories share one UUIDv7 *base* whose last two bytes are zero; memory `i` is `base + i`, so the ids of a
request need one random number (RFC 9562 §5.7: 48 bits of Unix milliseconds, then random bits).
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

BATCH_MAX = 4096
RANDOM_BYTES = 8
_SUFFIX_BYTES = 2
_SEQ_EPOCH_MS = 1_704_067_200_000  # 2024-01-01, so sequence numbers fit in 63 bits until 2058
_ENTRY_BITS = 11
_PLACE_BITS = 12
_SUFFIXES = [f"{place:04x}" for place in range(BATCH_MAX)]


def generate_base(unix_ms: int, random: bytes) -> bytes:
    """Return the 16 bytes of a UUIDv7 that ends in two zero bytes.

    Args:
        unix_ms: Milliseconds since 1970, 48 bits.
        random: 8 random bytes, of which 58 bits are used.
    """
    head = (0x7000 | (int.from_bytes(random[:2], "big") & 0x0FFF)).to_bytes(2, "big")
    tail = (0x80 | (random[2] & 0x3F)).to_bytes(1, "big") + random[3:8]
    return unix_ms.to_bytes(6, "big") + head + tail + bytes(_SUFFIX_BYTES)


def memory_uuids(base: bytes, count: int, first: int = 0) -> list[str]:
    """Return the ids of `count` memories of a request in order, beginning with the index `first`, as canonical text."""
    text = base.hex()
    stem = f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:28]}"
    return [stem + suffix for suffix in _SUFFIXES[first : first + count]]


def extract_base(memory_id: UUID) -> bytes:
    """Return the base of the request that contained this memory."""
    return memory_id.bytes[:-_SUFFIX_BYTES] + bytes(_SUFFIX_BYTES)


def extract_index(memory_id: UUID) -> int:
    """Return the memory's index in its request, from 0."""
    return int.from_bytes(memory_id.bytes[-_SUFFIX_BYTES:], "big")


def extract_unix_ms(memory_id: UUID) -> int:
    """Return when the id was generated, in milliseconds since 1970, by the clock of the API process."""
    return int.from_bytes(memory_id.bytes[:6], "big")


def first_uuid(unix_ms: int) -> UUID:
    """Return the lower bound of the ids generated at this moment or later; all ids generated earlier are below it."""
    return UUID(int=unix_ms << 80)


def parse_entry_id(entry_id: str) -> tuple[int, int]:
    """Return both parts of a stream entry's id, `milliseconds-sequence`; milliseconds count from 1970."""
    milliseconds, _, sequence = entry_id.partition("-")
    return int(milliseconds), int(sequence)


def first_seq(entry_id: str) -> int:
    """Return the sequence number of an entry's first memory; memory `i` has this number plus `i`.

    Args:
        entry_id: Id of the stream entry, `milliseconds-sequence`; Redis assigns these ids in ascending order.
    """
    milliseconds, sequence = parse_entry_id(entry_id)
    elapsed_ms = max(milliseconds - _SEQ_EPOCH_MS, 0)
    entry_index = min(sequence, (1 << _ENTRY_BITS) - 1)
    return ((elapsed_ms << _ENTRY_BITS) | entry_index) << _PLACE_BITS


def last_seq(entry_id: str) -> int:
    """Return the highest sequence number that memories of this or an earlier entry can have."""
    return first_seq(entry_id) + (1 << _PLACE_BITS) - 1


def array_literal(ids: Sequence[str]) -> str:
    """Return the ids as a PostgreSQL array literal for `CAST(:ids AS uuid[])`; binding UUID objects is much slower."""
    return "{" + ",".join(ids) + "}"
