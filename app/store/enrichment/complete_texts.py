"""Read the texts that the index stage scans, with flags for the results that are already stored."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection

from app.domain.ingest.roles import Role
from app.store.core.binary_arrays import Uuids, driver_connection
from app.store.memories import roles


class CompleteText(NamedTuple):
    """A memory with a complete text.

    Attributes:
        moment: Time of the event; time of acceptance if the event's time is unknown.
        seq: Sequence number: the order of acceptance within the tenant.
        role: The speaker's effective role; None if unknown.
        is_given: True if a caller sent the memory; False for a summary.
        says_change: True if the stored flag marks the text as a statement that changes an earlier one.
        has_reminders: True if reminder flags are stored.
        has_finding: True if a finding of personal data is stored.
    """

    memory_id: UUID
    text_version: int
    text: str
    subject: str | None
    speaker: str | None
    moment: datetime
    seq: int
    role: Role | None
    is_given: bool
    says_change: bool
    has_reminders: bool
    has_finding: bool


def read(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[CompleteText]:
    """Return these memories without deleted ones and cold ones, whose complete texts are only in segments."""
    rows = driver_connection(tx).execute(_READ, {"tenant": tenant_id, "ids": Uuids(memory_ids)}, binary=True)
    return list(map(CompleteText._make, rows.fetchall()))


def lock_rows(tx: Connection, tenant_id: UUID, memory_ids: Collection[UUID]) -> None:
    """Lock the rows of these memories, then their states, both in id order."""
    driver_connection(tx).execute(_LOCK, {"tenant": tenant_id, "ids": Uuids(sorted(memory_ids))})


_LOCK: Final = """
WITH locked AS MATERIALIZED (
  SELECT memory_id FROM memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)
  ORDER BY memory_id FOR NO KEY UPDATE
)
SELECT FROM memory_state
WHERE tenant_id = %(tenant)s AND memory_id = ANY (ARRAY(SELECT memory_id FROM locked))
ORDER BY memory_id FOR UPDATE
"""


# Subqueries read the other tables once per batch and hash the result. Without statistics, the planner could run joins
# as nested loops over all pairs.
_READ: Final = f"""
SELECT memory_id, text_version, text, subject, speaker, coalesce(occurred_at, created_at), seq, {roles.EFFECTIVE},
  made_by = 'caller', says_change,
  memory_id IN (
    SELECT memory_id FROM memory_state
    WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND reminders IS NOT NULL),
  memory_id IN (SELECT memory_id FROM privacy_findings WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s))
FROM memories
WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND deleted_at IS NULL
  AND memory_id NOT IN (SELECT memory_id FROM cold_memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s))
"""  # noqa: S608 - constants only
