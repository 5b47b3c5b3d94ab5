"""Store corrections of legal holds: each change keeps the ground and the reason that it replaced."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection

from app.domain.privacy.legal_hold import HoldGround
from app.store.core.binary_arrays import Uuids, driver_connection


class HoldChange(NamedTuple):
    """A correction of a hold, with the ground and the reason that were in force before it.

    Attributes:
        changed_by: Id of the API key of the caller who corrected the hold.
    """

    change_id: UUID

    hold_id: UUID
    changed_at: datetime
    changed_by: str
    ground: HoldGround | None
    reason: str


def correct_hold(
    tx: Connection, tenant_id: UUID, hold_id: UUID, *, ground: HoldGround | None, reason: str, changed_by: str
) -> None:
    """Replace a hold's ground and reason, also in its backup, and record the former ones.

    The caller holds the exclusive lock for holds.
    """
    values = {"tenant": tenant_id, "hold": hold_id, "ground": ground, "reason": reason, "by": changed_by}
    for statement in (_KEEP, _CORRECT, _CORRECT_BACKUP):
        driver_connection(tx).execute(statement, values)


_KEEP: Final = """
INSERT INTO hold_changes (tenant_id, hold_id, changed_by, ground, reason)
SELECT tenant_id, hold_id, %(by)s, ground, reason FROM holds WHERE tenant_id = %(tenant)s AND hold_id = %(hold)s
"""
_CORRECT: Final = """
UPDATE holds SET ground = %(ground)s, reason = %(reason)s WHERE tenant_id = %(tenant)s AND hold_id = %(hold)s
"""
_CORRECT_BACKUP: Final = """
UPDATE ebbing_keys.kept_holds AS kept SET placed = to_jsonb(hold)
FROM holds AS hold
WHERE kept.tenant_id = %(tenant)s AND kept.hold_id = %(hold)s AND hold.tenant_id = %(tenant)s
  AND hold.hold_id = %(hold)s
"""


def list_changes(tx: Connection, tenant_id: UUID, hold_ids: Sequence[UUID]) -> list[HoldChange]:
    """Return the corrections of these holds, oldest first."""
    values = {"tenant": tenant_id, "ids": Uuids(hold_ids)}
    return [HoldChange(*row) for row in driver_connection(tx).execute(_LIST, values).fetchall()]


_LIST: Final = """
SELECT change_id, hold_id, changed_at, changed_by, ground, reason FROM hold_changes
WHERE tenant_id = %(tenant)s AND hold_id = ANY (%(ids)s) ORDER BY changed_at, change_id
"""
