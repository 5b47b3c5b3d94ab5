"""Lock what guards a tenant's memories, and record what a transaction did to them.

`services.storage.memory_write` documents the lock order and calls these functions. The drain's COPY, which runs under a
role of its own, calls `record` directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

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


def record(tx: Connection, tenant_id: UUID, counts: TierCounts, moves: Counted, work: Sequence[Work]) -> None:
    """Queue work, then add to the tenant's counts and its counters of tier moves: one statement, none if all is empty.

    Args:
        tx: The tenant's transaction or the drain's. It must take no other locks afterwards except the audit chain's.
    """
    moved = tier_moves.ordered(moves)
    statement = _statement(counted=any(counts), moved=bool(moved), queued=bool(work))
    if statement:
        values: dict[str, Any] = {"tenant": tenant_id, **counts._asdict(), **moved}
        values |= {"stages": [stages for stages, _ in work], "items": [ids for _, ids in work]}
        driver_connection(tx).execute(statement, values)


@lru_cache
def _statement(*, counted: bool, moved: bool, queued: bool) -> str:
    """Build the statement, without parts that have nothing to write: the drain's role may not write tier moves."""
    every = ((queued, _QUEUE), (counted, tenant_counts.ADD), (moved, tier_moves.ADD))
    parts = [sql for is_given, sql in every if is_given]
    named = ", ".join(f"part_{place} AS ({sql})" for place, sql in enumerate(parts[1:]))
    return f"WITH {named} {parts[0]}" if named else "".join(parts)


# The inner subquery casts each item once, not once a stage.
_QUEUE: Final = """
INSERT INTO tenant_work (stage, tenant_id, memory_ids)
SELECT stage, %(tenant)s, ids
FROM (
  SELECT stages, CAST(item AS uuid[]) AS ids FROM unnest(%(stages)s::text[], %(items)s::text[]) AS given (stages, item)
  OFFSET 0
) AS items
CROSS JOIN unnest(string_to_array(stages, ' ')) AS stage
"""
