"""Back up the legal holds in force. The copies are in the key store's schema, which a restore of the data keeps.

When a transaction that places or releases a hold commits, a trigger (migration 0025) inserts or deletes the copy and
counts the change.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.privacy.legal_hold import Scope
from app.store.privacy import holds
from app.store.privacy.holds import HOLDS, Hold

_CONDITIONS: Final = ", ".join(Scope.__slots__)
_WAS: Final = "ebbing_keys.kept_holds AS kept CROSS JOIN LATERAL jsonb_populate_record(NULL::holds, kept.placed) AS was"


def unknown(tx: Connection, tenant_id: UUID) -> list[Hold]:
    """Return a tenant's backed-up holds that are missing from the data, in order of placement."""
    return [holds.as_hold(row) for row in tx.execute(_UNKNOWN, {"tenant": tenant_id})]


_UNKNOWN: Final = text(f"""
SELECT was.* FROM {_WAS}
WHERE kept.tenant_id = :tenant AND NOT EXISTS (
  SELECT FROM holds AS known WHERE known.tenant_id = :tenant AND known.hold_id = kept.hold_id)
ORDER BY was.placed_at, was.hold_id
""")  # noqa: S608 - constants only


def place(tx: Connection, tenant_id: UUID, hold_id: UUID) -> None:
    """Restore a hold, but exclude the memories that pending ledger entries erase, because no hold covered these.

    The caller holds the exclusive lock for holds. `widen` restores the full scope once the entries are replayed.
    """
    values = {"tenant": tenant_id, "hold_id": hold_id}
    tx.execute(_PLACE, values)
    tx.execute(_NARROW, values)


_PLACE: Final = text(f"""
INSERT INTO holds SELECT was.* FROM {_WAS} WHERE kept.tenant_id = :tenant AND kept.hold_id = :hold_id
ON CONFLICT DO NOTHING
""")  # noqa: S608 - constants only
_NARROW: Final = text(f"""
WITH met AS MATERIALIZED (
  SELECT memory.memory_id, memory.memory_id IN (
    SELECT unnest(entry.memory_ids) FROM ebbing_keys.erasure_ledger AS entry
    WHERE entry.tenant_id = :tenant AND entry.seq > (SELECT seq FROM ledger_mark)) AS was_erased
  FROM memories AS memory JOIN holds AS hold ON hold.tenant_id = :tenant AND hold.hold_id = :hold_id AND {HOLDS}
  WHERE memory.tenant_id = :tenant
)
UPDATE holds SET ({_CONDITIONS}) = ROW (
  -- An id of nothing where nothing is left: a hold has some condition.
  coalesce((SELECT array_agg(memory_id) FROM met WHERE NOT was_erased), ARRAY[:nobody]::uuid[])
  {", NULL" * (len(Scope.__slots__) - 1)})
WHERE tenant_id = :tenant AND hold_id = :hold_id AND EXISTS (SELECT FROM met WHERE was_erased)
""").bindparams(nobody=str(UUID(int=0)))  # noqa: S608 - constants only


def widen(tx: Connection, tenant_id: UUID) -> None:
    """Restore the original scope of holds that `place` restored with a narrower scope."""
    tx.execute(_WIDEN, {"tenant": tenant_id})


_WIDEN: Final = text(f"""
UPDATE holds AS hold SET ({_CONDITIONS}) = ROW (
  {", ".join(f"was.{name}" for name in Scope.__slots__)})
FROM {_WAS}
WHERE hold.tenant_id = :tenant AND kept.tenant_id = :tenant AND kept.hold_id = hold.hold_id
  AND hold.memory_ids IS DISTINCT FROM was.memory_ids
""")  # noqa: S608 - constants only


def without_backup(tx: Connection, tenant_id: UUID) -> list[Hold]:
    """Return holds in force in the data that have no backup."""
    return [holds.as_hold(row) for row in tx.execute(_ALONE, {"tenant": tenant_id})]


_ALONE: Final = text("""
SELECT * FROM holds AS known
WHERE tenant_id = :tenant AND released_at IS NULL AND NOT EXISTS (
  SELECT FROM ebbing_keys.kept_holds AS kept WHERE kept.tenant_id = :tenant AND kept.hold_id = known.hold_id)
ORDER BY placed_at, hold_id
""")


def compare(tx: Connection, tenant_id: UUID) -> list[Hold]:
    """Synchronise a tenant's backed-up holds with the data. Return the holds that were in force only in the data.

    If the data is the older copy, it may contain holds that were released since. If the key store is the older copy, it
    may contain holds that the data shows as released.
    """
    tx.execute(_REMOVE, {"tenant": tenant_id})
    only_in_data = without_backup(tx, tenant_id)
    tx.execute(_KEEP, {"tenant": tenant_id, "ids": [hold.hold_id for hold in only_in_data]})
    return only_in_data


_REMOVE: Final = text("""
DELETE FROM ebbing_keys.kept_holds AS kept
WHERE tenant_id = :tenant AND EXISTS (
  SELECT FROM holds AS known
  WHERE known.tenant_id = :tenant AND known.hold_id = kept.hold_id AND known.released_at IS NOT NULL)
""")
# A no-op update fires the trigger as if the holds were placed now.
_KEEP: Final = text("""
UPDATE holds SET released_at = released_at WHERE tenant_id = :tenant AND hold_id = ANY (CAST(:ids AS uuid[]))
""")
