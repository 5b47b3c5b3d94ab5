"""Store arriving envelopes: record them in the ingest ledger, and insert their memories with COPY.

The ledger (table `envelopes`) has one row per envelope, written in the transaction that stores its memories. A
redelivered envelope conflicts with its row and is skipped, so no staging table is needed. The primary key of `memories`
is a second safeguard against duplicates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

import psycopg
from sqlalchemy import Connection, text

from app.domain.changes.types import STORED
from app.domain.ingest.ids import array_literal, memory_uuids
from app.store.changes.feed import IS_ON
from app.store.core.binary_copy import HEADER, MEMORIES_COPY, STATE_COPY, TRAILER, Arrival, PolicyTerms, pack
from app.store.enrichment.work_queue import STAGES
from app.store.erasure.whole_tenant import IS_DELETED
from app.store.memories import writes
from app.store.memories.tenant_counts import TierCounts

# Maximum number of memories per item of enrichment work. It is small so that tenants that share a stage alternate after
# few memories. If only one tenant has work, a claim takes several items.
WORK_ITEM_MEMORIES = 250


def copy_fresh(tx: Connection, tenant_id: UUID, arrivals: Sequence[Arrival]) -> int:
    """Store the envelopes that aren't in the ledger yet, and queue the enrichment of their memories.

    Nothing is stored for a tenant whose deletion has started.

    Args:
        tx: A transaction of the role `ebbing_drain`, because COPY isn't allowed under row-level security.

    Returns:
        The number of memories stored.

    Raises:
        TypeError: The connection isn't a psycopg connection.
    """
    connection = tx.connection.driver_connection
    if not isinstance(connection, psycopg.Connection):
        raise TypeError
    by_base = {arrival.base: arrival for arrival in arrivals}
    bases = array_literal([base.hex() for base in by_base])
    sizes = [len(arrival.memories) for arrival in by_base.values()]
    values = {"tenant": tenant_id, "bases": bases, "sizes": sizes, "envelopes": len(sizes)}
    [(now_ms, fresh, version, from_occurred)] = connection.execute(_LEDGER, values).fetchall()
    terms = PolicyTerms(version or 0, bool(from_occurred))
    new_arrivals = list(by_base.values())
    if fresh is not None:
        new_bases = {base.bytes for base in fresh}
        new_arrivals = [arrival for arrival in new_arrivals if arrival.base in new_bases]
    if not new_arrivals:
        return 0
    states = []
    text_bytes = 0
    with connection.cursor() as cursor:
        with cursor.copy(MEMORIES_COPY) as copy:
            copy.write(HEADER)
            for rows, state, size in pack(tenant_id, new_arrivals, now_ms, terms):
                copy.write(rows)
                states.append(state)
                text_bytes += size
            copy.write(TRAILER)
        with cursor.copy(STATE_COPY) as copy:
            copy.write(b"".join((HEADER, *states, TRAILER)))
    stored = sum(len(arrival.memories) for arrival in new_arrivals)
    work = [(" ".join(STAGES), ids) for ids in _work_items(new_arrivals)]
    writes.record(tx, tenant_id, TierCounts(active=stored, text_bytes=text_bytes), {}, work)
    return stored


# Returns the new bases only if some of the envelopes were stored before. Usually all are new, and decoding a thousand
# UUIDs would take a while. The feed of changes gets the new bases here, which costs much less than the ids of their
# memories; nobody can change the memories before the transaction ends, so their other changes follow this one.
_LEDGER = f"""
WITH fresh AS (
  INSERT INTO envelopes (tenant_id, base, memories)
  SELECT tenant, base, memories
  FROM (SELECT CAST(%(tenant)s AS uuid) AS tenant) AS owner,
    unnest(%(bases)s::uuid[], %(sizes)s::int[]) AS given (base, memories)
  WHERE NOT {IS_DELETED.format(tenant="tenant")}
  ON CONFLICT DO NOTHING RETURNING base, memories
), policy AS (
  SELECT version, body->>'decay_from' = 'occurred' AS from_occurred FROM policies
  WHERE tenant_id = %(tenant)s AND effective_at <= now() ORDER BY version DESC LIMIT 1
), reported AS (
  INSERT INTO changes (tenant_id, at, size, type, ids, spans)
  SELECT %(tenant)s, clock_timestamp(), sum(memories), '{STORED}', array_agg(base),
    CASE WHEN max(memories) > 1 THEN array_agg(memories) END
  FROM fresh HAVING count(*) > 0 AND {IS_ON}
)
SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint),
  CASE WHEN count(*) < %(envelopes)s THEN coalesce(array_agg(base), '{{}}') END,
  (SELECT version FROM policy), (SELECT from_occurred FROM policy)
FROM fresh
"""  # noqa: S608 - constants only


def _work_items(arrivals: Sequence[Arrival]) -> Iterator[str]:
    """Yield the memory ids of all envelopes in order, as array literals of at most `WORK_ITEM_MEMORIES` ids."""
    ids: list[str] = []
    for arrival in arrivals:
        ids += memory_uuids(arrival.base, len(arrival.memories))
    for start in range(0, len(ids), WORK_ITEM_MEMORIES):
        yield array_literal(ids[start : start + WORK_ITEM_MEMORIES])


def insert_fresh(tx: Connection, tenant_id: UUID, envelopes: Mapping[bytes, int]) -> set[bytes]:
    """Insert envelopes into the ledger. Return the bases of the envelopes that weren't in the ledger before.

    None is inserted for a tenant whose deletion has started.

    Args:
        envelopes: Number of memories by base.
    """
    values = {
        "tenant_id": tenant_id,
        "bases": array_literal([base.hex() for base in envelopes]),
        "memories": list(envelopes.values()),
    }
    return {row.base.bytes for row in tx.execute(_NOTE, values)}


_NOTE = text(f"""
INSERT INTO envelopes (tenant_id, base, memories)
SELECT :tenant_id, base, memories
FROM unnest(CAST(:bases AS uuid[]), CAST(:memories AS int[])) AS given (base, memories)
WHERE NOT {IS_DELETED.format(tenant=":tenant_id")}
ON CONFLICT DO NOTHING RETURNING base
""")  # noqa: S608 - constants only


def is_stored(tx: Connection, tenant_id: UUID, base: bytes) -> bool:
    """Return True if the ledger contains the envelope with this base."""
    return bool(tx.execute(_IS_STORED, {"tenant_id": tenant_id, "base": UUID(bytes=base)}).scalar())


_IS_STORED = text("SELECT EXISTS (SELECT FROM envelopes WHERE tenant_id = :tenant_id AND base = :base)")
