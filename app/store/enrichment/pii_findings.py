"""Store the kinds of personal data detected in memories' texts, with their confidence; never the matched text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import msgspec
from sqlalchemy import Connection

from app.store.core.binary_arrays import Uuids, driver_connection
from app.store.enrichment.complete_texts import CompleteText


@dataclass(frozen=True, slots=True)
class StoredFinding:
    """Personal data detected in a text.

    Attributes:
        text_version: The scanned version of the memory's text.
        kinds: Kinds from `pii_detection.ALL_KINDS`, in their order.
        categories: The categories of these kinds.
        pii: Confidence of the most certain finding, 0 to 1.
        sensitivity: Sensitivity of the most sensitive category, 0 to 1.
    """

    memory_id: UUID
    text_version: int
    kinds: Sequence[str]
    categories: Sequence[str]
    pii: float
    sensitivity: float


def get(tx: Connection, tenant_id: UUID, memory_id: UUID) -> StoredFinding | None:
    """Return the findings in a memory's text, or None if there are none."""
    row = driver_connection(tx).execute(_OF, {"tenant": tenant_id, "memory_id": memory_id}).fetchone()
    return None if row is None else StoredFinding(*row)


_OF: Final = """
SELECT memory_id, text_version, kinds, categories, pii, sensitivity FROM privacy_findings
WHERE tenant_id = %(tenant)s AND memory_id = %(memory_id)s
"""


def write(tx: Connection, tenant_id: UUID, looked_at: Sequence[CompleteText], found: Sequence[StoredFinding]) -> None:
    """Store the findings of scanned texts and delete findings that no longer apply; skip texts edited since the scan.

    Memories whose findings change become due for the next sweep. Lock order: call this before locking the word index.

    Args:
        looked_at: Scanned texts that have findings now or had some before.
        found: The current findings; texts without personal data have none.
    """
    if not looked_at:
        return
    values: dict[str, Any] = {
        "tenant": tenant_id,
        "ids": Uuids([scanned.memory_id for scanned in looked_at]),
        "versions": [scanned.text_version for scanned in looked_at],
        "found": msgspec.json.encode(found).decode(),
    }
    driver_connection(tx).execute(_WRITE, values)


# The memories' rows are locked first, so that none is removed between the check and the write.
_WRITE: Final = """
WITH given AS (
  SELECT * FROM jsonb_to_recordset(%(found)s::jsonb)
    AS given (memory_id uuid, text_version integer, kinds text[], categories text[], pii real, sensitivity real)
),
looked_at AS (SELECT * FROM unnest(%(ids)s, %(versions)s::int4[]) AS looked_at (memory_id, text_version)),
same AS MATERIALIZED (
  SELECT memory.memory_id, memory.text_version FROM memories AS memory
  WHERE memory.tenant_id = %(tenant)s AND memory.deleted_at IS NULL
    AND memory.memory_id = ANY (ARRAY(
      SELECT memory_id FROM given
      UNION SELECT memory_id FROM privacy_findings WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)))
    AND EXISTS (SELECT FROM looked_at
      WHERE looked_at.memory_id = memory.memory_id AND looked_at.text_version = memory.text_version)
  ORDER BY memory.memory_id FOR KEY SHARE
),
written AS (
  INSERT INTO privacy_findings AS known (tenant_id, memory_id, text_version, kinds, categories, pii, sensitivity)
  SELECT %(tenant)s, memory_id, text_version, kinds, categories, pii, sensitivity
  FROM given JOIN same USING (memory_id, text_version) ORDER BY memory_id
  ON CONFLICT (tenant_id, memory_id) DO UPDATE SET text_version = excluded.text_version, kinds = excluded.kinds,
    categories = excluded.categories, pii = excluded.pii, sensitivity = excluded.sensitivity
  WHERE (known.text_version, known.kinds, known.categories, known.pii, known.sensitivity)
    IS DISTINCT FROM (excluded.text_version, excluded.kinds, excluded.categories, excluded.pii, excluded.sensitivity)
  RETURNING memory_id
),
struck AS (
  DELETE FROM privacy_findings WHERE tenant_id = %(tenant)s
    AND memory_id = ANY (ARRAY(SELECT memory_id FROM same EXCEPT SELECT memory_id FROM given))
  RETURNING memory_id
),
altered AS MATERIALIZED (
  SELECT memory_id FROM memory_state
  WHERE tenant_id = %(tenant)s AND next_due_at > '-infinity' AND tier <> 'deleted'
    AND memory_id = ANY (ARRAY(SELECT memory_id FROM written UNION ALL SELECT memory_id FROM struck))
  ORDER BY memory_id FOR UPDATE
)
UPDATE memory_state SET next_due_at = '-infinity'
WHERE tenant_id = %(tenant)s AND memory_id = ANY (ARRAY(SELECT memory_id FROM altered))
"""
