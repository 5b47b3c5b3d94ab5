"""Memory ids and sequence numbers, which define the order of acceptance.

A request's memories share one UUIDv7 *base* whose last two bytes are zero; memory `i` is `base + i`, so ids of a whole
batch cost one random draw (RFC 9562 §5.7: 48 bits of Unix milliseconds, then random).
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

BATCH_MAX = 4096
RANDOM_BYTES = 8
_SUFFIX_BYTES = 2
_SEQ_EPOCH_MS = 1_704_067_200_000  # 2024-01-01: leaves room until 2058 in 63 bits
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


def memory_uuids(base: bytes, count: int) -> list[str]:
    """Return the ids of a request's memories in order, as canonical text."""
    text = base.hex()
    stem = f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:28]}"
    return [stem + suffix for suffix in _SUFFIXES[:count]]


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
    """Return the boundary between ids generated before this moment (all below it) and from then on (none below it)."""
    return UUID(int=unix_ms << 80)


def parse_entry_id(entry_id: str) -> tuple[int, int]:
    """Return the milliseconds since 1970 and the sequence of a stream entry's id, `milliseconds-sequence`."""
    milliseconds, _, sequence = entry_id.partition("-")
    return int(milliseconds), int(sequence)


def first_seq(entry_id: str) -> int:
    """Return the sequence number of an entry's first memory; memory `i` has this number plus `i`.

    Args:
        entry_id: The stream's id, `milliseconds-sequence`, which Redis assigns in ascending order.
    """
    milliseconds, sequence = parse_entry_id(entry_id)
    ticks = max(milliseconds - _SEQ_EPOCH_MS, 0)
    within = min(sequence, (1 << _ENTRY_BITS) - 1)
    return ((ticks << _ENTRY_BITS) | within) << _PLACE_BITS


def last_seq(entry_id: str) -> int:
    """Return the highest sequence number that memories of this or an earlier entry can have."""
    return first_seq(entry_id) + (1 << _PLACE_BITS) - 1


def array_literal(ids: Sequence[str]) -> str:
    """Return the ids as a PostgreSQL array literal, for `CAST(:ids AS uuid[])`: far cheaper than UUID objects."""
    return "{" + ",".join(ids) + "}"
