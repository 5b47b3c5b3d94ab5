"""Find the unfinished erasures with the same case reference, such as those of a letter that names several people."""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection

from app.domain.privacy.case_details import REDACTED
from app.domain.privacy.erasure import Status
from app.store.core.binary_arrays import driver_connection

ERASURES_MAX: Final = 100
"""Maximum number of erasures that are returned."""


class UnfinishedErasure(NamedTuple):
    """An erasure that isn't finished, and the end of its grace period."""

    erasure_id: UUID
    status: Status
    erase_after: datetime


def list_unfinished(
    tx: Connection, tenant_id: UUID, case_reference: str | None, but: UUID
) -> tuple[UnfinishedErasure, ...]:
    """Return the unfinished erasures with this case reference (case-insensitive) except `but`, oldest first.

    Args:
        case_reference: The result is empty if it is None or was redacted.
        but: Id of the erasure or request from which `case_reference` was read.
    """
    if case_reference is None or case_reference == REDACTED:
        return ()
    values = {"tenant": tenant_id, "case": case_reference, "but": but, "limit": ERASURES_MAX}
    return tuple(UnfinishedErasure(*row) for row in driver_connection(tx).execute(_UNFINISHED, values).fetchall())


_UNFINISHED: Final = """
SELECT erasure_id, status, erase_after FROM erasures
WHERE tenant_id = %(tenant)s AND status IN ('grace', 'running', 'held') AND erasure_id <> %(but)s
  AND lower(btrim(case_reference)) = lower(btrim(%(case)s::text))
ORDER BY requested_at, erasure_id LIMIT %(limit)s
"""
