"""Find the other erasures with the same case reference, such as those of a letter that names several people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

from sqlalchemy import Connection

from app.domain.privacy.case_details import REDACTED
from app.domain.privacy.erasure import Status
from app.domain.privacy.erasure_passes import HELD
from app.store.core.binary_arrays import driver_connection

ERASURES_MAX: Final = 100
"""Maximum number of erasures that are returned."""


class UnfinishedErasure(NamedTuple):
    """An erasure that isn't finished, and the end of its grace period."""

    erasure_id: UUID
    status: Status
    erase_after: datetime


class OtherErasure(NamedTuple):
    """Another erasure of a case.

    Attributes:
        ended_at: Time at which it was verified or cancelled; None while it is unfinished.
        memories: Memories in its scope: those of its last report, or else those that it hid when it was entered.
    """

    erasure_id: UUID
    status: Status
    erase_after: datetime
    ended_at: datetime | None
    memories: int


def list_others(tx: Connection, tenant_id: UUID, case_reference: str | None, but: UUID) -> tuple[OtherErasure, ...]:
    """Return the erasures with this case reference (case-insensitive) except `but`.

    Unfinished ones precede ended ones; in each group, the oldest is first.

    Args:
        case_reference: The result is empty if it is None or was redacted.
        but: Id of the erasure from which `case_reference` was read.
    """
    return tuple(OtherErasure(*row) for row in _list(tx, _OTHERS, tenant_id, case_reference, but))


def list_unfinished(
    tx: Connection, tenant_id: UUID, case_reference: str | None, but: UUID
) -> tuple[UnfinishedErasure, ...]:
    """Return the unfinished erasures with this case reference (case-insensitive) except `but`, oldest first.

    Args:
        case_reference: The result is empty if it is None or was redacted.
        but: Id of the erasure or request from which `case_reference` was read.
    """
    return tuple(UnfinishedErasure(*row) for row in _list(tx, _UNFINISHED, tenant_id, case_reference, but))


def _list(
    tx: Connection, query: LiteralString, tenant_id: UUID, case_reference: str | None, but: UUID
) -> Sequence[tuple[Any, ...]]:
    if case_reference is None or case_reference == REDACTED:
        return ()
    values = {"tenant": tenant_id, "case": case_reference, "but": but, "limit": ERASURES_MAX}
    return driver_connection(tx).execute(query, values).fetchall()


_SAME_CASE: Final = """
WHERE tenant_id = %(tenant)s AND erasure_id <> %(but)s
  AND lower(btrim(case_reference)) = lower(btrim(%(case)s::text))
"""
_UNFINISHED: Final = f"""
SELECT erasure_id, status, erase_after FROM erasures
{_SAME_CASE} AND status IN ('grace', 'running', 'held')
ORDER BY requested_at, erasure_id LIMIT %(limit)s
"""  # noqa: S608 - constants only
# An earlier version's report has no passes, or no number of held memories: then the rows on holds are added.
_OTHERS: Final = f"""
SELECT erasure_id, status, erase_after, coalesce(verified_at, cancelled_at), CASE
  WHEN report IS NULL THEN hidden
  WHEN status = 'verified' THEN CAST(report->>'memories' AS bigint)
  ELSE CAST(report->>'memories' AS bigint) + coalesce(CAST(report->'passes'->-1->>'held' AS bigint), (
    SELECT CAST(sum(CAST(item->>'count' AS bigint)) AS bigint) FROM jsonb_array_elements(report->'kept') AS item
    WHERE item->>'what' = '{HELD}'), 0) END
FROM erasures {_SAME_CASE}
ORDER BY status IN ('verified', 'cancelled'), requested_at, erasure_id LIMIT %(limit)s
"""  # noqa: S608 - constants only
