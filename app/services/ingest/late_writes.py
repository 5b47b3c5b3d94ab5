"""Find memories that were written before an erasure of their subject or thread, and must not be stored.

A memory counts as written when it was accepted, or earlier if its sender says that it waited (`written`). The drain
drops memories that were written before such an erasure; the response to a request lists those that are known by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from msgspec.structs import replace

from app.domain.ingest.ids import first_seq, memory_uuids
from app.domain.ingest.memory import MemoryIn
from app.domain.ingest.sources import stamp
from app.domain.privacy.erasure import Named
from app.domain.privacy.late_arrivals import delayed_seq, digest_names, find_covering, measure_delay
from app.store.core import database
from app.store.core.binary_copy import Arrival
from app.store.erasure import ledger, tombstones
from app.store.memories.memories import NewMemory

REPORTED_DELAY_MS: Final = 5000
"""Delay of a write from which the API looks up erasures; the drain looks them up for every write."""


class DroppedWrite(NamedTuple):
    """A memory of a request that won't be stored: its id, and what was erased after it was written."""

    memory_id: str
    erased: Named


def list_rows(arrival: Arrival) -> list[tuple[NewMemory, int]]:
    """Return an envelope's memories as rows, each with the sequence number at which it was written."""
    seq = first_seq(arrival.entry_id) + arrival.first
    rows = []
    for place, (memory_id, memory) in enumerate(
        zip(memory_uuids(arrival.base, len(arrival.memories), arrival.first), arrival.memories, strict=True)
    ):
        own = seq + place
        since = own
        if memory.written is not None:
            since = delayed_seq(memory.written, own, arrival.accepted_ms, arrival.sent_ms)
        stamped = replace(memory, source=stamp(memory.source, arrival.writer))
        row = NewMemory(UUID(memory_id), own, arrival.accepted_ms, stamped, arrival.writer.key_id)
        rows.append((row, since))
    return rows


def find_erased(
    tx: database.Transaction, tenant_id: UUID, written: Sequence[tuple[MemoryIn, int]]
) -> list[Named | None]:
    """Return, for each memory, which of subject and thread was erased after it was written; None if neither was.

    A caller that drops these memories must hold the lock of erasures.

    Args:
        written: Memories, each with the sequence number at which it was written.
    """
    latest_ms = tombstones.latest_cut_ms(tx, tenant_id)
    end = 0 if latest_ms is None else first_seq(f"{latest_ms + 1}-0")
    if all(seq >= end for _, seq in written):
        return [None] * len(written)
    key = ledger.digest_key(tx, tenant_id) or b""
    digests = [digest_names(key, memory) if seq < end else {} for memory, seq in written]
    cuts = tombstones.find_cuts(tx, tenant_id, {each for names in digests for each in names.values()})
    return [find_covering(cuts, names, seq) for (_, seq), names in zip(written, digests, strict=True)]


def has_waited(arrival: Arrival) -> bool:
    """Return whether any memory of a request waited for `REPORTED_DELAY_MS` or longer, or for an unknown time."""
    delays = [measure_delay(memory.written, arrival.sent_ms) for memory in arrival.memories if memory.written]
    return any(delay is None or delay >= REPORTED_DELAY_MS for delay in delays)


def list_dropped(tenant_id: UUID, arrival: Arrival) -> list[DroppedWrite]:
    """Return the memories of a request that won't be stored, as far as that is known already.

    Until the request is stored, later erasures of the same data can add memories to this list.
    """
    rows = list_rows(arrival)
    with database.tenant(tenant_id) as tx:
        erased = find_erased(tx, tenant_id, [(row.given, since) for row, since in rows])
    return [DroppedWrite(str(row.memory_id), what) for (row, _), what in zip(rows, erased, strict=True) if what]
