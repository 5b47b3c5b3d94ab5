"""Store arriving envelopes: the ledger, and bulk COPY under the role that may use it.

The ledger has one row per envelope, written in the transaction that stores its memories. A redelivered envelope
conflicts with its row, so no staging table is needed. The primary key of `memories` is the second safeguard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

import psycopg
from sqlalchemy import Connection, text

from app.domain.ingest.ids import array_literal, memory_uuids
from app.store.core.binary_copy import HEADER, MEMORIES_COPY, STATE_COPY, TRAILER, Arrival, PolicyTerms, pack
from app.store.enrichment.work_queue import STAGES
from app.store.memories import writes
from app.store.memories.tenant_counts import TierCounts

# Number of memories per item of enrichment work: small enough for one batch of an embedder.
WORK_ITEM_MEMORIES = 1000


def copy_fresh(tx: Connection, tenant_id: UUID, arrivals: Sequence[Arrival]) -> int:
    """Store envelopes that the ledger doesn't have and queue their enrichment. Return the number of memories stored.

    Args:
        tx: A transaction of `ebbing_drain`; COPY isn't allowed under row-level security.
    """
    connection = tx.connection.driver_connection
    if not isinstance(connection, psycopg.Connection):
        raise TypeError
    by_base = {arrival.base: arrival for arrival in arrivals}
    bases = array_literal([base.hex() for base in by_base])
    sizes = [len(arrival.memories) for arrival in by_base.values()]
    [(now_ms, fresh, version, from_occurred)] = connection.execute(
        _LEDGER, (tenant_id, bases, sizes, tenant_id, len(sizes))
    ).fetchall()
    terms = PolicyTerms(version or 0, bool(from_occurred))
    storing = list(by_base.values())
    if fresh is not None:
        entered = {base.bytes for base in fresh}
        storing = [arrival for arrival in storing if arrival.base in entered]
    if not storing:
        return 0
    states = []
    text_bytes = 0
    with connection.cursor() as cursor:
        with cursor.copy(MEMORIES_COPY) as copy:
            copy.write(HEADER)
            for rows, state, of_texts in pack(tenant_id, storing, now_ms, terms):
                copy.write(rows)
                states.append(state)
                text_bytes += of_texts
            copy.write(TRAILER)
        with cursor.copy(STATE_COPY) as copy:
            copy.write(b"".join((HEADER, *states, TRAILER)))
    stored = sum(len(arrival.memories) for arrival in storing)
    work = [(" ".join(STAGES), ids) for ids in _work_items(storing)]
    writes.record(tx, tenant_id, TierCounts(active=stored, text_bytes=text_bytes), {}, work)
    return stored


# Bases are returned only if some weren't fresh: usually all are, and decoding a thousand UUIDs takes a while.
_LEDGER = """
WITH fresh AS (
  INSERT INTO envelopes (tenant_id, base, memories)
  SELECT %s, base, memories FROM unnest(%s::uuid[], %s::int[]) AS given (base, memories)
  ON CONFLICT DO NOTHING RETURNING base
), policy AS (
  SELECT version, body->>'decay_from' = 'occurred' AS from_occurred FROM policies
  WHERE tenant_id = %s AND effective_at <= now() ORDER BY version DESC LIMIT 1
)
SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint),
  CASE WHEN count(*) < %s THEN coalesce(array_agg(base), '{}') END,
  (SELECT version FROM policy), (SELECT from_occurred FROM policy)
FROM fresh
"""


def _work_items(arrivals: Sequence[Arrival]) -> Iterator[str]:
    """Yield the ids of all envelopes in order, as array literals of at most `WORK_ITEM_MEMORIES`."""
    ids: list[str] = []
    for arrival in arrivals:
        ids += memory_uuids(arrival.base, len(arrival.memories))
    for start in range(0, len(ids), WORK_ITEM_MEMORIES):
        yield array_literal(ids[start : start + WORK_ITEM_MEMORIES])


def insert_fresh(tx: Connection, tenant_id: UUID, envelopes: Mapping[bytes, int]) -> set[bytes]:
    """Insert envelopes into the ledger. Return the bases of those that weren't there.

    Args:
        envelopes: Number of memories by base.
    """
    values = {
        "tenant_id": tenant_id,
        "bases": array_literal([base.hex() for base in envelopes]),
        "memories": list(envelopes.values()),
    }
    return {row.base.bytes for row in tx.execute(_NOTE, values)}


_NOTE = text("""
INSERT INTO envelopes (tenant_id, base, memories)
SELECT :tenant_id, base, memories
FROM unnest(CAST(:bases AS uuid[]), CAST(:memories AS int[])) AS given (base, memories)
ON CONFLICT DO NOTHING RETURNING base
""")


def is_stored(tx: Connection, tenant_id: UUID, base: bytes) -> bool:
    """Return True if the ledger has the envelope with this base."""
    return bool(tx.execute(_IS_STORED, {"tenant_id": tenant_id, "base": UUID(bytes=base)}).scalar())


_IS_STORED = text("SELECT EXISTS (SELECT FROM envelopes WHERE tenant_id = :tenant_id AND base = :base)")
