"""Figures of all tenants together. What is read for them is under row-level security, so the drain's role reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, text

from app.domain.evaluation.self_tests import EMPTY_SHARE, EMPTY_TESTS_MIN

COUNTED_MOST: Final = 100_000
"""Dead letters that are counted: above, more would say no more."""


@dataclass(frozen=True, slots=True)
class Whole:
    """What all tenants have.

    Attributes:
        dead_letters: That wait for a person, `COUNTED_MOST` at most.
    """

    active: int
    archived: int
    cold: int
    dead_letters: int


def whole(tx: Connection) -> Whole:
    """What all tenants have, by sums over few rows and one index.

    Args:
        tx: A transaction of the drain's.
    """
    return Whole(*tx.execute(_WHOLE, {"most": COUNTED_MOST}).one())


_WHOLE = text("""
SELECT CAST(coalesce(sum(active), 0) AS bigint), CAST(coalesce(sum(archived), 0) AS bigint),
  CAST(coalesce(sum(cold), 0) AS bigint),
  (SELECT count(*) FROM (SELECT FROM dead_letters WHERE discarded_at IS NULL LIMIT :most) AS waiting)
FROM tenant_counts
""")


def provisional(tx: Connection) -> int:
    """Memories that only the rules have judged, counted on an index.

    Args:
        tx: A transaction of the drain's.
    """
    return int(tx.execute(_PROVISIONAL).scalar_one())


_PROVISIONAL = text("SELECT count(*) FROM scores WHERE scorer = 'heuristic'")


def empty_recalls(tx: Connection) -> int:
    """Return the number of tenants whose last run of self-tests with recalls found recall nearly always empty.

    Args:
        tx: A transaction of the drain's.
    """
    return int(tx.execute(_EMPTY_RECALLS, {"share": EMPTY_SHARE, "least": EMPTY_TESTS_MIN}).scalar_one())


_EMPTY_RECALLS = text("""
SELECT count(*) FROM (
  SELECT DISTINCT ON (tenant_id) CAST(recall ->> 'empty' AS int) AS empty,
    CAST(recall ->> 'passed' AS int) + CAST(recall ->> 'failed' AS int) AS asked
  FROM self_test_runs CROSS JOIN LATERAL (SELECT results -> 'recall' AS recall) AS part
  WHERE finished_at IS NOT NULL AND recall IS NOT NULL
  ORDER BY tenant_id, started_at DESC
) AS last WHERE asked >= :least AND empty >= :share * asked
""")


def last_success(tx: Connection, task: str) -> float | None:
    """When a scheduled task last ended well, of the tenant for which that is the longest ago: seconds since 1970.

    A tenant for which it never has counts from when it came; schedules that are paused don't count. None where there
    is no schedule.
    """
    found: float | None = tx.execute(_LAST_SUCCESS, {"task": task}).scalar()
    return found


_LAST_SUCCESS = text("""
SELECT CAST(extract(epoch FROM min(coalesce(last.finished_at, tenants.created_at))) AS float8)
FROM schedules JOIN tenants USING (tenant_id) LEFT JOIN LATERAL (
  SELECT job.finished_at FROM runs AS run JOIN jobs AS job ON job.job_id = run.job_id
  WHERE run.tenant_id = schedules.tenant_id AND run.task = schedules.task AND job.status = 'done'
    AND job.state->>'cut_short' IS NULL
  ORDER BY run.scheduled_for DESC LIMIT 1
) AS last ON true
WHERE schedules.task = :task AND NOT schedules.paused
""")
