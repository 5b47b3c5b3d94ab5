"""Track deadlines: rewriting segments affected by erasures, and answering privacy requests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text


class LateRewrites(NamedTuple):
    """Number of erasures whose segment rewrite is overdue, and the earliest missed deadline."""

    erasures: int
    since: datetime | None


class DueRequests(NamedTuple):
    """Number of open requests that are due soon or overdue, and the days left for the first (negative if overdue).

    Requests with a recorded partial answer don't count.
    """

    requests: int
    days_left: float | None


@dataclass(frozen=True, slots=True)
class DeadlineTotals:
    """Totals over all tenants.

    Attributes:
        open: Number of unanswered requests by nature.
        min_days_left: Days left for the open request that is due first; None if no open request has a deadline
            to meet.
        residue: Number of rows that the verification of running erasures found and that remain to be erased.
        late_rewrites: Number of erasures whose segment rewrite is overdue.
    """

    open: dict[str, int]
    min_days_left: float | None
    residue: int
    late_rewrites: int


def to_rewrite(tx: Connection, tenant_id: UUID) -> list[UUID]:
    """Return the segments that still contain records of erased data (already unreadable), earliest deadline first."""
    return [row.segment_id for row in tx.execute(_TO_REWRITE, {"tenant": tenant_id})]


_ASKED: Final = """
  tenant_id = :tenant AND (
    (rewrite_by IS NOT NULL AND rewritten_at IS NULL) OR status IN ('running', 'held')) AND plan IS NOT NULL"""
_TO_REWRITE: Final = text(f"""
WITH asked AS MATERIALIZED (
  SELECT CAST(named #>> '{{}}' AS uuid) AS segment_id, rewrite_by
  FROM erasures CROSS JOIN jsonb_path_query(plan, '$[*].segments[*]') AS named WHERE {_ASKED}
)
SELECT segment.segment_id
FROM (
  SELECT segment_id FROM segments
  WHERE tenant_id = :tenant AND status = 'written' AND live < records
    AND segment_id = ANY (ARRAY(SELECT segment_id FROM asked)) OFFSET 0
) AS segment CROSS JOIN LATERAL (
  SELECT min(rewrite_by) AS first FROM asked WHERE asked.segment_id = segment.segment_id OFFSET 0
) AS promised
ORDER BY promised.first NULLS LAST, segment.segment_id
""")  # noqa: S608 - constants only


def mark_rewritten(tx: Connection, tenant_id: UUID, now: datetime) -> int:
    """Mark erasures whose affected segments have all been rewritten and deleted. Return the number marked."""
    return tx.execute(_NOTE_REWRITTEN, {"tenant": tenant_id, "now": now}).rowcount


_NOTE_REWRITTEN: Final = text("""
UPDATE erasures SET rewritten_at = :now
WHERE tenant_id = :tenant AND rewrite_by IS NOT NULL AND rewritten_at IS NULL AND NOT EXISTS (
  SELECT FROM segments
  WHERE segments.tenant_id = :tenant AND (segments.status = 'dropped' OR live < records)
    AND segments.segment_id = ANY (ARRAY(
      SELECT CAST(named #>> '{}' AS uuid) FROM jsonb_path_query(plan, '$[*].segments[*]') AS named)))
""")


def read_late(tx: Connection, tenant_id: UUID, now: datetime) -> LateRewrites:
    """Count the erasures whose segment rewrite is overdue."""
    return LateRewrites(*tx.execute(_LATE, {"tenant": tenant_id, "now": now}).one())


_LATE: Final = text("""
SELECT count(*), min(rewrite_by) FROM erasures
WHERE tenant_id = :tenant AND rewrite_by < :now AND rewritten_at IS NULL
""")


def read_due(tx: Connection, tenant_id: UUID, now: datetime, days: int) -> DueRequests:
    """Count the open requests that are due within this many days or overdue."""
    return DueRequests(*tx.execute(_DUE, {"tenant": tenant_id, "now": now, "days": days}).one())


_DUE: Final = text("""
SELECT count(*), CAST(extract(epoch FROM min(due_at) - :now) / 86400 AS float8) FROM privacy_requests
WHERE tenant_id = :tenant AND answer IS NULL AND partial_sent_at IS NULL
  AND due_at < :now + make_interval(days => :days)
""")


def read_totals(tx: Connection) -> DeadlineTotals:
    """Return totals over all tenants; the rows that they are computed from name no subjects.

    Args:
        tx: A transaction of the role `ebbing_drain`.
    """
    natures = tx.execute(_OPEN).all()
    days_left = [row.days_left for row in natures if row.days_left is not None]
    residue, late_rewrites = tx.execute(_LEFT).one()
    return DeadlineTotals(
        {row.nature: row.requests for row in natures}, min(days_left, default=None), residue, late_rewrites
    )


_OPEN: Final = text("""
SELECT nature, count(*) AS requests,
  CAST(extract(epoch FROM min(due_at) FILTER (WHERE partial_sent_at IS NULL) - now()) / 86400 AS float8)
    AS days_left
FROM privacy_requests WHERE answer IS NULL GROUP BY nature
""")
_LEFT: Final = text("""
SELECT CAST(coalesce(sum(residue) FILTER (WHERE status = 'running'), 0) AS bigint),
  count(*) FILTER (WHERE rewrite_by < now() AND rewritten_at IS NULL)
FROM erasures WHERE status = 'running' OR (rewrite_by IS NOT NULL AND rewritten_at IS NULL)
""")
