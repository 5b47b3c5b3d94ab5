"""Check supersessions again after an edit of their memories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from app.domain.ingest.sources import rank_sql
from app.store.consolidation import supersessions
from app.store.core.binary_arrays import Uuids, driver_connection


def reject_cross_subject(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Reject supersessions whose ends have different subjects now, after one of these memories was edited."""
    if memory_ids:
        supersessions.lock(tx, tenant_id)
        driver_connection(tx).execute(_PART, {"tenant": tenant_id, "ids": Uuids(memory_ids)})


_SUBJECT: Final = "(SELECT subject FROM memories WHERE tenant_id = %(tenant)s AND memories.memory_id = known.{})"
_PART: Final = f"""
UPDATE supersessions AS known SET status = 'rejected', reason = 'subject'
WHERE tenant_id = %(tenant)s AND status IN ('active', 'proposed')
  AND (memory_id = ANY (%(ids)s) OR superseded_id = ANY (%(ids)s))
  AND {_SUBJECT.format("memory_id")} IS DISTINCT FROM {_SUBJECT.format("superseded_id")}
"""  # noqa: S608 - constants only


def settle_edited(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Reject supersessions that edits of these memories have made invalid, or turn them into proposals."""
    reject_cross_subject(tx, tenant_id, memory_ids)
    propose_lower(tx, tenant_id, memory_ids)


def propose_lower(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Turn a supersession by one of these memories into a proposal if the older memory's source is now more trusted.

    Supersessions that a person has stated or decided remain.
    """
    if memory_ids:
        supersessions.lock(tx, tenant_id)
        driver_connection(tx).execute(_LOWER.encode(), {"tenant": tenant_id, "ids": Uuids(memory_ids)})


_RANK: Final = f"""(
    SELECT {rank_sql("source")} FROM memories
    WHERE memories.tenant_id = %(tenant)s AND memories.memory_id = known.{{}})"""  # noqa: S608 - constants only
_LOWER: Final = f"""
UPDATE supersessions AS known SET status = 'proposed', reason = 'source'
WHERE tenant_id = %(tenant)s AND status = 'active' AND source <> 'person' AND decided_at IS NULL
  AND memory_id = ANY (%(ids)s) AND {_RANK.format("memory_id")} > {_RANK.format("superseded_id")}
"""  # noqa: S608 - constants only
