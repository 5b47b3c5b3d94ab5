"""Save the supersessions of memories hidden by an erasure until it can no longer be cancelled.

`hide_supersessions` and the `show_again` functions first take the supersessions' lock, and `reject_restored` is called
in the same transaction. `discard_hidden` needs only the erasures' lock: while its caller holds that lock exclusively,
no other transaction saves or restores supersessions for an erasure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

from app.domain.consolidation.supersession import SupersessionPair
from app.store.consolidation import supersessions
from app.store.core.binary_arrays import Uuids, driver_connection


def hide_supersessions(tx: Connection, tenant_id: UUID, erasure_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Remove the supersessions of memories hidden by an erasure, and save them in case the erasure is cancelled.

    Indirect supersessions through these memories are replaced by direct supersessions. Memories that no other memory
    supersedes any more become current again.
    """
    supersessions.lock(tx, tenant_id)
    values = {"tenant": tenant_id, "ids": Uuids(memory_ids), "erasure": erasure_id}
    for statement in (_CLOSE, _KEEP, supersessions.FORGET):
        driver_connection(tx).execute(statement.encode(), values)


_COLUMNS: Final = "(tenant_id, supersession_id, is_added, erasure_id, memory_id, superseded_id, body)"
_CLOSE: Final = f"""
WITH added AS ({supersessions.CLOSE} RETURNING supersession_id, memory_id, superseded_id)
INSERT INTO hidden_supersessions {_COLUMNS}
SELECT %(tenant)s, supersession_id, true, %(erasure)s, memory_id, superseded_id, '{{}}' FROM added
"""  # noqa: S608 - constants only
_KEEP: Final = f"""
INSERT INTO hidden_supersessions {_COLUMNS}
SELECT tenant_id, supersession_id, false, %(erasure)s, memory_id, superseded_id, to_jsonb(known)
{supersessions.OF_THEM}
"""


def show_again(tx: Connection, tenant_id: UUID, erasure_id: UUID) -> list[SupersessionPair]:
    """Restore all supersessions saved for an erasure whose memories are visible again.

    If an erasure in its grace period or a quarantine still hides an end of a supersession, the supersession is
    reassigned to that erasure or quarantine. Otherwise, a supersession with a hidden end is deleted.

    Returns:
        The pairs that became active; the caller must check whether they are still valid.
    """
    supersessions.lock(tx, tenant_id)
    values = {"tenant": tenant_id, "erasure": erasure_id}
    driver_connection(tx).execute(_OPEN, values)
    restored = _restore_pairs(tx, _SHOW_AGAIN, values)
    driver_connection(tx).execute(_HAND_OVER, values)
    discard_hidden(tx, tenant_id, [erasure_id])
    return restored


def show_again_of(tx: Connection, tenant_id: UUID, memory_id: UUID) -> list[SupersessionPair]:
    """Restore the saved supersessions of one memory whose other ends exist; the caller must check the returned pairs.

    The direct supersessions that replaced them while the memory was hidden remain, because they are valid as well.
    """
    supersessions.lock(tx, tenant_id)
    return _restore_pairs(tx, _SHOW_AGAIN_OF, {"tenant": tenant_id, "memory": memory_id})


def _restore_pairs(tx: Connection, statement: str, values: dict[str, Any]) -> list[SupersessionPair]:
    rows = driver_connection(tx).execute(statement.encode(), values, binary=True).fetchall()
    return [SupersessionPair(*row[:2]) for row in rows if row[2] == "active"]


# Remove the direct supersessions that `hide_supersessions` added for this erasure, except those decided manually since.
# If another erasure has hidden one of them since, its saved copy is deleted, so that it isn't restored later.
_OPEN: Final = """
WITH added AS (
  DELETE FROM hidden_supersessions WHERE tenant_id = %(tenant)s AND erasure_id = %(erasure)s AND is_added
  RETURNING supersession_id
), kept AS (
  DELETE FROM hidden_supersessions
  WHERE tenant_id = %(tenant)s AND NOT is_added AND supersession_id IN (SELECT supersession_id FROM added)
)
DELETE FROM supersessions
WHERE tenant_id = %(tenant)s AND status = 'active' AND decided_at IS NULL
  AND supersession_id IN (SELECT supersession_id FROM added)
"""
_IS_THERE: Final = """EXISTS (
  SELECT FROM memories WHERE memories.tenant_id = %(tenant)s AND memories.memory_id = kept.{} AND deleted_at IS NULL)"""
_BACK: Final = f"""
WITH back AS (
  DELETE FROM hidden_supersessions AS kept
  WHERE tenant_id = %(tenant)s AND {{which}}
    AND {_IS_THERE.format("memory_id")} AND (superseded_id IS NULL OR {_IS_THERE.format("superseded_id")})
  RETURNING body
)
INSERT INTO supersessions SELECT (jsonb_populate_record(NULL::supersessions, body)).* FROM back
ON CONFLICT DO NOTHING RETURNING memory_id, superseded_id, status
"""  # noqa: S608 - constants only
_SHOW_AGAIN: Final = _BACK.format(which="erasure_id = %(erasure)s")
_SHOW_AGAIN_OF: Final = _BACK.format(which="NOT is_added AND %(memory)s IN (memory_id, superseded_id)")
# Only erasures in their grace period and quarantines in force: memories that are being erased can't be restored.
_HAND_OVER: Final = """
UPDATE hidden_supersessions AS kept SET erasure_id = hides.erasure_id
FROM (
  SELECT memory_id, erasure_id FROM hidden_memories WHERE tenant_id = %(tenant)s AND erasure_id = ANY (ARRAY(
    SELECT erasure_id FROM erasures WHERE tenant_id = %(tenant)s AND status = 'grace'
    UNION ALL
    SELECT quarantine_id FROM quarantines WHERE tenant_id = %(tenant)s AND status IN ('placing', 'placed')))
) AS hides
WHERE kept.tenant_id = %(tenant)s AND kept.erasure_id = %(erasure)s
  AND hides.memory_id IN (kept.memory_id, kept.superseded_id)
"""


def discard_hidden(tx: Connection, tenant_id: UUID, erasure_ids: Sequence[UUID]) -> None:
    """Delete the supersessions saved for erasures that can no longer be cancelled.

    The transaction must hold the erasures' lock exclusively.
    """
    driver_connection(tx).execute(_LET_GO, {"tenant": tenant_id, "erasures": Uuids(erasure_ids)})


_LET_GO: Final = "DELETE FROM hidden_supersessions WHERE tenant_id = %(tenant)s AND erasure_id = ANY (%(erasures)s)"


def reject_restored(tx: Connection, tenant_id: UUID, pairs: Sequence[SupersessionPair], reason: str) -> None:
    """Reject restored pairs that are no longer valid; the transaction that restored them holds the lock."""
    values = {"tenant": tenant_id, "reason": reason}
    values |= {"newer": Uuids([pair.memory_id for pair in pairs]), "older": Uuids([p.superseded_id for p in pairs])}
    driver_connection(tx).execute(_REFUSE, values)


_REFUSE: Final = """
UPDATE supersessions AS known SET status = 'rejected', reason = %(reason)s
FROM unnest(%(newer)s, %(older)s) AS given (memory_id, superseded_id)
WHERE tenant_id = %(tenant)s AND known.memory_id = given.memory_id AND known.superseded_id = given.superseded_id
"""
