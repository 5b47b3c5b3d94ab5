"""Store the retention periods of subjects; `store.tiers.protections` applies them."""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text


class SubjectPeriod(NamedTuple):
    """A retention period; `category` is in lower case, or None for all memories about the subject."""

    category: str | None
    keep_days: float
    set_at: datetime


def list_periods(tx: Connection, tenant_id: UUID, subject: str) -> list[SubjectPeriod]:
    """Return a subject's retention periods, in order of their categories."""
    return [SubjectPeriod(*row) for row in tx.execute(_LIST, {"tenant": tenant_id, "subject": subject})]


_LIST: Final = text("""
SELECT nullif(category, ''), keep_days, set_at FROM subject_retention
WHERE tenant_id = :tenant AND subject = :subject ORDER BY category
""")


def set_period(
    tx: Connection, tenant_id: UUID, subject: str, category: str | None, keep_days: float, actor: str
) -> None:
    """Set the period of a subject and category, replacing an earlier one."""
    tx.execute(_SET, _key(tenant_id, subject, category) | {"keep_days": keep_days, "actor": actor})


_SET: Final = text("""
INSERT INTO subject_retention (tenant_id, subject, category, keep_days, set_by)
VALUES (:tenant, :subject, lower(:category), :keep_days, :actor)
ON CONFLICT (tenant_id, subject, category) DO UPDATE
SET keep_days = excluded.keep_days, set_at = now(), set_by = excluded.set_by
""")


def remove_period(tx: Connection, tenant_id: UUID, subject: str, category: str | None) -> bool:
    """Remove the period of a subject and category; return False if there is none."""
    return tx.execute(_REMOVE, _key(tenant_id, subject, category)).rowcount > 0


_REMOVE: Final = text("""
DELETE FROM subject_retention WHERE tenant_id = :tenant AND subject = :subject AND category = lower(:category)
""")


def _key(tenant_id: UUID, subject: str, category: str | None) -> dict[str, object]:
    return {"tenant": tenant_id, "subject": subject, "category": category or ""}
