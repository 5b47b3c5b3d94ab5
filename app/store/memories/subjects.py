"""Count the data stored about a subject."""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

from app.store.privacy.holds import HOLDS


class Subject(NamedTuple):
    """Counts of a subject's data.

    Attributes:
        hidden: Memories that are deleted or hidden by an open erasure, and therefore in no tier.
        held: Memories under a legal hold, including hidden ones.
        exports: Exports of the subject that are running or can be downloaded.
        open_erasures: Unfinished erasures whose scope names this subject, alone or with other conditions.
    """

    active: int
    archived: int
    cold: int
    hidden: int
    held: int
    exports: int
    open_erasures: int


def read(tx: Connection, tenant_id: UUID, subject: str) -> Subject:
    """Count a subject's data; all counts are 0 for an unknown subject."""
    return Subject(*tx.execute(_READ, {"tenant": tenant_id, "subject": subject}).one())


_READ: Final = text(f"""
WITH about AS MATERIALIZED (
  SELECT memory.*, (
    SELECT tier FROM memory_state AS state
    WHERE state.tenant_id = :tenant AND state.memory_id = memory.memory_id) AS tier
  FROM memories AS memory WHERE tenant_id = :tenant AND subject = :subject
)
SELECT count(*) FILTER (WHERE tier = 'active'), count(*) FILTER (WHERE tier = 'archived'),
  count(*) FILTER (WHERE tier = 'cold'), count(*) FILTER (WHERE deleted_at IS NOT NULL),
  count(*) FILTER (WHERE EXISTS (SELECT FROM holds AS hold WHERE hold.tenant_id = :tenant AND {HOLDS})),
  (SELECT count(*) FROM exports
   WHERE tenant_id = :tenant AND subject = :subject AND status IN ('running', 'ready')),
  (SELECT count(*) FROM erasures
   WHERE tenant_id = :tenant AND status IN ('grace', 'running', 'held') AND scope->>'subject' = :subject)
FROM about AS memory
""")  # noqa: S608 - constants only
