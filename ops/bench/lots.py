"""The same memories as request bodies for the drain, and packed for COPY as its floor."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import psycopg

from app.domain.ingest.bodies import decode
from app.domain.ingest.ids import RANDOM_BYTES, generate_base, memory_uuids
from app.services.tenants.tenants import FIRST_POLICY_VERSION
from app.store.core import binary_copy
from app.store.core.binary_copy import Arrival
from ops.bench.corpus import Corpus

ROWS_A_TRANSACTION = 5000


@dataclass(frozen=True)
class Lot:
    """Memories in entries of a given size.

    Attributes:
        bodies: One body per entry.
        packed: Input for COPY: rows of `memories` and of `memory_state`, one pair per transaction.
        ids: Ids of the packed memories, in conversation order.
    """

    tenant_id: UUID
    rows: int
    memories: int
    bodies: Sequence[bytes]
    packed: Sequence[tuple[bytes, bytes]]
    ids: list[UUID]

    @staticmethod
    def make(tenant_id: UUID, rows: int, memories: int) -> Lot:
        """Create `rows` rows, in entries of `memories` memories each."""
        bodies = Corpus().bodies(rows // memories, memories)
        now = time.time_ns() // 1_000_000
        # Entry ids in the format of Redis, a thousand per millisecond.
        arrivals = [
            Arrival(
                f"{now + n // 1000}-{n % 1000}",
                generate_base(now, os.urandom(RANDOM_BYTES)),
                now,
                decode(body, "json", None),
            )
            for n, body in enumerate(bodies)
        ]
        lot = max(ROWS_A_TRANSACTION // memories, 1)
        packed = [_packed(tenant_id, arrivals[start : start + lot], now) for start in range(0, len(arrivals), lot)]
        ids = [UUID(text) for arrival in arrivals for text in memory_uuids(arrival.base, memories)]
        return Lot(tenant_id, rows, memories, bodies, packed, ids)

    def copy(self, owner_url: str) -> float:
        """Store the packed rows over one connection, as fast as PostgreSQL accepts them. Return the seconds."""
        with psycopg.connect(owner_url) as connection:
            connection.execute("SET ROLE ebbing_drain")
            connection.commit()
            started = time.perf_counter()
            for memories, states in self.packed:
                with connection.cursor() as cursor:
                    with cursor.copy(binary_copy.MEMORIES_COPY) as copy:
                        copy.write(memories)
                    with cursor.copy(binary_copy.STATE_COPY) as copy:
                        copy.write(states)
                connection.commit()
            return time.perf_counter() - started


def _packed(tenant_id: UUID, arrivals: Sequence[Arrival], now_ms: int) -> tuple[bytes, bytes]:
    terms = binary_copy.PolicyTerms(FIRST_POLICY_VERSION)  # as in a tenant whose policy was never changed
    pieces = list(binary_copy.pack(tenant_id, arrivals, now_ms, terms))
    memories, states = b"".join(rows for rows, _, _ in pieces), b"".join(state for _, state, _ in pieces)
    return binary_copy.HEADER + memories + binary_copy.TRAILER, binary_copy.HEADER + states + binary_copy.TRAILER
