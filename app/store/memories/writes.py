"""Take the locks that writes of memories need, and record the results of a write: enrichment work, counts, tier moves.

`services.storage.memory_write` documents the lock order and calls these functions. The drain, whose COPY runs under a
separate database role, calls `record` directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

from app.store.changes import feed
from app.store.core.binary_arrays import driver_connection
from app.store.memories import tenant_counts
from app.store.memories.tenant_counts import TierCounts
from app.store.tiers import tier_moves
from app.store.tiers.tier_moves import Counted

Work = tuple[str, str]
"""The stages of an item of enrichment work, separated by spaces, and its memory ids as a PostgreSQL array literal."""


def lock_holds_and_erasures(tx: Connection, tenant_id: UUID) -> None:
    """Take the tenant's hold lock, then its erasure lock, in shared mode until the transaction ends."""
    driver_connection(tx).execute(_LOCK, {"tenant": str(tenant_id)})


_LOCK: Final = """
SELECT pg_advisory_xact_lock_shared(hashtextextended('ebbing holds ' || %(tenant)s, 0)),
  pg_advisory_xact_lock_shared(hashtextextended('ebbing erasures ' || %(tenant)s, 0))
"""


def record(
    tx: Connection,
    tenant_id: UUID,
    counts: TierCounts,
    moves: Counted,
    work: Sequence[Work],
    changes: Sequence[feed.Batch] = (),
) -> None:
    """Queue enrichment work, and add to the tenant's counts, its counters of tier moves and its feed of changes.

    This takes a single statement; nothing is executed if all four are empty.

    Args:
        tx: The tenant's or the drain's transaction. Afterwards, it may take no lock except that of the audit chain.
    """
    moved = tier_moves.ordered(moves)
    statement = _statement(counted=any(counts), moved=bool(moved), queued=bool(work), reported=bool(changes))
    if statement:
        values: dict[str, Any] = {"tenant": tenant_id, **counts._asdict(), **moved}
        values |= {"stages": [stages for stages, _ in work], "items": [ids for _, ids in work]}
        if changes:
            values |= feed.parameters(tx, changes)
        driver_connection(tx).execute(statement, values)


@lru_cache
def _statement(*, counted: bool, moved: bool, queued: bool, reported: bool) -> str:
    """Build the statement from the parts that have something to write (the drain's role can't write tier moves)."""
    optional = ((queued, _QUEUE), (reported, feed.RECORD), (counted, tenant_counts.ADD), (moved, tier_moves.ADD))
    parts = [sql for is_needed, sql in optional if is_needed]
    subqueries = ", ".join(f"part_{number} AS ({sql})" for number, sql in enumerate(parts[1:]))
    return f"WITH {subqueries} {parts[0]}" if subqueries else "".join(parts)


# The inner subquery casts each item once, instead of once per stage.
_QUEUE: Final = """
INSERT INTO tenant_work (stage, tenant_id, memory_ids)
SELECT stage, %(tenant)s, ids
FROM (
  SELECT stages, CAST(item AS uuid[]) AS ids FROM unnest(%(stages)s::text[], %(items)s::text[]) AS given (stages, item)
  OFFSET 0
) AS items
CROSS JOIN unnest(string_to_array(stages, ' ')) AS stage
"""
