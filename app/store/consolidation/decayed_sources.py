"""Store the properties of those sources of a summary that decay deletes.

A summary keeps the content of these sources, but has only the properties that its sources have in common. So the
properties by which an erasure selects memories are stored for each deleted source, until the summary is deleted or
rewritten without the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.privacy.legal_hold import Scope
from app.store.core.binary_arrays import Uuids, driver_connection
from app.store.privacy.holds import scope_sql


def add(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Store the properties of the memories among these that are sources of summaries; call this before the deletion."""
    driver_connection(tx).execute(_ADD, {"tenant": tenant_id, "ids": Uuids(memory_ids)})


_ADD: Final = """
INSERT INTO decayed_sources
  (tenant_id, memory_id, source_id, subject, thread, kind, tags, categories, occurred_at, created_at, source,
    written_by)
SELECT %(tenant)s, merge.summary_id, source.memory_id, source.subject, source.thread, source.kind, source.tags,
  source.categories, source.occurred_at, source.created_at, source.source, source.written_by
FROM lineage
CROSS JOIN LATERAL (
  SELECT summary_id FROM merges
  WHERE merges.tenant_id = %(tenant)s AND merges.merge_id = lineage.merge_id AND status = 'done'
    AND summary_id IS NOT NULL OFFSET 0
) AS merge
CROSS JOIN LATERAL (
  SELECT * FROM memories
  WHERE memories.tenant_id = %(tenant)s AND memories.memory_id = lineage.memory_id OFFSET 0
) AS source
WHERE lineage.tenant_id = %(tenant)s AND lineage.memory_id = ANY (%(ids)s) AND part = 'source'
ORDER BY merge.summary_id, source.memory_id ON CONFLICT DO NOTHING
"""


def list_summaries(tx: Connection, tenant_id: UUID, scope: Scope) -> list[UUID]:
    """Return the summaries that have a deleted source whose properties match a scope, in id order."""
    statement = text(f"""
SELECT DISTINCT summary_id FROM (
  SELECT memory_id AS summary_id, source_id AS memory_id, subject, thread, kind, tags, categories, occurred_at,
    created_at
  FROM decayed_sources WHERE tenant_id = :tenant
) AS memory
WHERE {scope_sql(scope)} ORDER BY summary_id
""")  # noqa: S608 - constants only
    return list(tx.execute(statement, {"tenant": tenant_id} | scope.conditions()).scalars())


def forget(tx: Connection, tenant_id: UUID, summary_id: UUID) -> None:
    """Delete the rows of a summary that has been rewritten from its remaining sources."""
    driver_connection(tx).execute(_FORGET, {"tenant": tenant_id, "id": summary_id})


_FORGET: Final = "DELETE FROM decayed_sources WHERE tenant_id = %(tenant)s AND memory_id = %(id)s"
