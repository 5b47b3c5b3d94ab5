"""Find memories that expire or may expire under the privacy policy, and store the tenant's expiry notice."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from app.store.core.binary_arrays import driver_connection, fetch_column
from app.store.strength import states
from app.store.strength.states import StoredStates


def lock(tx: Connection, tenant_id: UUID, after: UUID, limit: int) -> StoredStates:
    """Lock a page of memories of any tier that are marked for deletion, by id, together with their rows in `memories`.

    Rows locked by another transaction are skipped.
    """
    return states.fetch_states(tx, _LOCK, {"tenant": tenant_id, "after": after, "limit": limit})


_LOCK: Final = f"""
SELECT string_agg({states.RECORD}, '') FROM (
  SELECT * FROM memory_state
  WHERE tenant_id = %(tenant)s AND memory_id > %(after)s AND tier <> 'deleted'
    AND wanted_tier <> tier AND wanted_tier = 'deleted' AND EXISTS (
      SELECT FROM memories AS memory WHERE memory.tenant_id = %(tenant)s AND memory.memory_id = memory_state.memory_id
      FOR UPDATE SKIP LOCKED)
  ORDER BY memory_id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
) AS found
"""  # noqa: S608 - constants only


def record_notice(tx: Connection, tenant_id: UUID, memories: int) -> None:
    """Record the first expiry notice with the number of expiring memories; a later call has no effect."""
    driver_connection(tx).execute(_NOTE_EXPIRY, {"tenant": tenant_id, "memories": memories})


_NOTE_EXPIRY: Final = """
INSERT INTO expiry_notices (tenant_id, noticed_at, memories) VALUES (%(tenant)s, now(), %(memories)s)
ON CONFLICT DO NOTHING
"""


def is_noticed(tx: Connection, tenant_id: UUID) -> bool:
    """Return True if the tenant's first expiry notice was recorded, so that memories may be expired."""
    return bool(driver_connection(tx).execute(_IS_NOTICED, {"tenant": tenant_id}).fetchall())


_IS_NOTICED: Final = "SELECT true FROM expiry_notices WHERE tenant_id = %(tenant)s"


def list_expiring_ids(tx: Connection, tenant_id: UUID, after: UUID, limit: int) -> list[UUID]:
    """Return a page of memories that may expire, by id.

    They are archived or cold, have findings, categories or a time of expiry, or their subject has a retention period.
    """
    return fetch_column(tx, _PERSONAL_IDS, {"tenant": tenant_id, "after": after, "limit": limit})


_PERSONAL_IDS: Final = """
SELECT memory_id FROM (
  (SELECT memory_id FROM privacy_findings
   WHERE tenant_id = %(tenant)s AND memory_id > %(after)s ORDER BY memory_id LIMIT %(limit)s)
  UNION
  (SELECT memory_id FROM memories
   WHERE tenant_id = %(tenant)s AND memory_id > %(after)s AND categories <> '{}' AND deleted_at IS NULL
   ORDER BY memory_id LIMIT %(limit)s)
  UNION
  (SELECT memory_id FROM memories
   WHERE tenant_id = %(tenant)s AND memory_id > %(after)s AND expires_at IS NOT NULL AND deleted_at IS NULL
   ORDER BY memory_id LIMIT %(limit)s)
  UNION
  (SELECT memory_id FROM memories
   WHERE tenant_id = %(tenant)s AND memory_id > %(after)s AND deleted_at IS NULL AND subject IN (
     SELECT subject FROM subject_retention WHERE tenant_id = %(tenant)s)
   ORDER BY memory_id LIMIT %(limit)s)
  UNION
  (SELECT memory_id FROM memory_state
   WHERE tenant_id = %(tenant)s AND memory_id > %(after)s AND tier <> 'active' AND tier <> 'deleted'
   ORDER BY memory_id LIMIT %(limit)s)
) AS found ORDER BY memory_id LIMIT %(limit)s
"""
