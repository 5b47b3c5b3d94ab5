"""Combine due deletions of single memories into one erasure (a batch), and store the progress of all of them at once.

A batch is an erasure whose `batch_id` is its own id. Each of its deletions has this `batch_id` until the deletion is
finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
from sqlalchemy import Connection, text

from app.store.core.binary_arrays import Uuids, driver_connection
from app.store.erasure.requests import COLUMNS, WITHOUT_JOB, Erasure, as_erasure
from app.store.privacy.holds import HOLDS


class Deletion(NamedTuple):
    """A requested deletion of one memory."""

    erasure_id: UUID
    memory_id: UUID
    erase_after: datetime


def lock_due(tx: Connection, tenant_id: UUID, as_of: datetime, limit: int) -> list[Deletion]:
    """Return deletions whose grace period has ended, in the order in which it ended, with their rows locked.

    Deletions that have an unfinished job, and deletions of held memories or of a summary's sources, are omitted: they
    run individually.
    """
    return [Deletion(*row) for row in tx.execute(_LOCK_DUE, {"tenant": tenant_id, "as_of": as_of, "limit": limit})]


_LOCK_DUE: Final = text(f"""
SELECT erasure_id, single.memory_id, erase_after
FROM erasures CROSS JOIN LATERAL (SELECT CAST(scope->'memory_ids'->>0 AS uuid) AS memory_id) AS single
WHERE tenant_id = :tenant AND status = 'grace' AND kind = 'user' AND erase_after <= :as_of
  AND scope = jsonb_build_object('memory_ids', scope->'memory_ids') AND jsonb_array_length(scope->'memory_ids') = 1
  AND {WITHOUT_JOB} AND NOT EXISTS (
    SELECT FROM lineage JOIN merges USING (tenant_id, merge_id)
    WHERE lineage.tenant_id = :tenant AND lineage.memory_id = single.memory_id AND summary_id IS NOT NULL)
  AND NOT EXISTS (
    SELECT FROM memories AS memory JOIN holds AS hold ON hold.tenant_id = :tenant AND {HOLDS}
    WHERE memory.tenant_id = :tenant AND memory.memory_id = single.memory_id)
ORDER BY erase_after, erasure_id LIMIT :limit FOR UPDATE OF erasures
""")  # noqa: S608 - constants only


def assign(tx: Connection, tenant_id: UUID, batch: Erasure, erasure_ids: Sequence[UUID]) -> None:
    """Start these deletions as parts of a batch, and reassign their hidden memories to the batch.

    The caller has locked the deletions' rows.
    """
    values = {"tenant": tenant_id, "ids": Uuids(erasure_ids), "batch": batch.erasure_id}
    driver_connection(tx).execute(_ASSIGN, values | {"cut": batch.cut, "now": batch.started_at})
    driver_connection(tx).execute(_ASSIGN_HIDDEN, values)


_ASSIGN: Final = """
UPDATE erasures SET status = 'running', cut = %(cut)s, started_at = %(now)s, batch_id = %(batch)s
WHERE tenant_id = %(tenant)s AND erasure_id = ANY (%(ids)s)
"""
_ASSIGN_HIDDEN: Final = """
UPDATE hidden_memories SET erasure_id = %(batch)s WHERE tenant_id = %(tenant)s AND erasure_id = ANY (%(ids)s)
"""


def deletions(tx: Connection, tenant_id: UUID, batch_id: UUID) -> list[Erasure]:
    """Return the unfinished deletions of a batch in id order, with their rows locked."""
    return [as_erasure(row) for row in tx.execute(_DELETIONS, {"tenant": tenant_id, "batch": batch_id})]


_DELETIONS: Final = text(f"""
SELECT {COLUMNS} FROM erasures
WHERE tenant_id = :tenant AND batch_id = :batch AND erasure_id <> :batch AND status = 'running'
ORDER BY erasure_id FOR UPDATE
""")  # noqa: S608 - constants only


def set_progress(tx: Connection, tenant_id: UUID, singles: Sequence[Erasure]) -> None:
    """Store the plans and the executed steps of a batch's deletions."""
    # One JSON document for all deletions: in an array of JSON texts, every quotation mark would be escaped twice.
    progress = {single.erasure_id: {"plan": single.plan, "executed": single.executed} for single in singles}
    values = {"tenant": tenant_id, "ids": Uuids(list(progress)), "given": msgspec.json.encode(progress).decode()}
    driver_connection(tx).execute(_SET_PROGRESS, values)


_SET_PROGRESS: Final = """
UPDATE erasures SET plan = given.value->'plan', executed = given.value->'executed'
FROM jsonb_each(CAST(%(given)s AS jsonb)) AS given
WHERE tenant_id = %(tenant)s AND erasure_id = ANY (%(ids)s) AND erasure_id = CAST(given.key AS uuid)
  AND batch_id IS NOT NULL AND status = 'running'
"""


def close(tx: Connection, tenant_id: UUID, batch_id: UUID) -> None:
    """Delete a batch. Its unfinished deletions continue individually; the hidden memories are reassigned to them."""
    for statement in (_RETURN_HIDDEN, _RELEASE, _DELETE):
        driver_connection(tx).execute(statement, {"tenant": tenant_id, "batch": batch_id})


_RETURN_HIDDEN: Final = """
UPDATE hidden_memories AS hidden SET erasure_id = (
  SELECT erasure_id FROM erasures
  WHERE tenant_id = %(tenant)s AND batch_id = %(batch)s AND erasure_id <> %(batch)s
  ORDER BY scope->'memory_ids' ? hidden.memory_id::text DESC, erasure_id LIMIT 1)
WHERE tenant_id = %(tenant)s AND erasure_id = %(batch)s
"""
_RELEASE: Final = "UPDATE erasures SET batch_id = NULL WHERE tenant_id = %(tenant)s AND batch_id = %(batch)s"
_DELETE: Final = "DELETE FROM erasures WHERE tenant_id = %(tenant)s AND erasure_id = %(batch)s"
