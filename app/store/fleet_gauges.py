"""Read totals over all tenants.

Row-level security hides other tenants' rows from every role except `ebbing_drain`: pass transactions from
`database.drain()` where a function requires it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.evaluation.self_test_rules import EMPTY_SHARE, EMPTY_TESTS_MIN

COUNTED_MOST: Final = 100_000
"""Maximum number of dead letters that are counted; higher counts are reported as this number."""


@dataclass(frozen=True, slots=True)
class Whole:
    """Totals over all tenants.

    Attributes:
        dead_letters: Dead letters that await a decision; at most `COUNTED_MOST`.
    """

    active: int
    archived: int
    cold: int
    dead_letters: int


def whole(tx: Connection) -> Whole:
    """Return totals over all tenants from `tenant_counts` and the index of dead letters.

    Args:
        tx: A transaction from `database.drain()`.
    """
    return Whole(*tx.execute(_WHOLE, {"most": COUNTED_MOST}).one())


_WHOLE = text("""
SELECT CAST(coalesce(sum(active), 0) AS bigint), CAST(coalesce(sum(archived), 0) AS bigint),
  CAST(coalesce(sum(cold), 0) AS bigint),
  (SELECT count(*) FROM (SELECT FROM dead_letters WHERE discarded_at IS NULL LIMIT :most) AS waiting)
FROM tenant_counts
""")


def dead_letters_by_tenant(tx: Connection, limit: int) -> tuple[dict[UUID, int], int]:
    """Count the dead letters that await a decision, by tenant.

    Args:
        tx: A transaction from `database.drain()`.
        limit: Maximum number of tenants to return: those with the most dead letters.

    Returns:
        The counts by tenant, and the number of tenants with dead letters; both cover at most `COUNTED_MOST` letters.
    """
    rows = tx.execute(_LETTERS_BY_TENANT, {"most": COUNTED_MOST, "limit": limit}).all()
    return {row.tenant_id: row.letters for row in rows}, rows[0].tenants if rows else 0


_LETTERS_BY_TENANT = text("""
SELECT tenant_id, count(*) AS letters, count(*) OVER () AS tenants
FROM (SELECT tenant_id FROM dead_letters WHERE discarded_at IS NULL LIMIT :most) AS waiting
GROUP BY tenant_id ORDER BY letters DESC, tenant_id LIMIT :limit
""")


def provisional(tx: Connection) -> int:
    """Count memories that only the rules have scored, using an index; `tx` is from `database.drain()`."""
    return int(tx.execute(_PROVISIONAL).scalar_one())


_PROVISIONAL = text("SELECT count(*) FROM scores WHERE scorer = 'heuristic'")


def count_unrated(tx: Connection, versions: Sequence[str]) -> int:
    """Count the memories of all tenants that await a rating by a model; at most `COUNTED_MOST`.

    Only tenants with a turn (`rating_turns`) are read, so that nothing is counted while nothing waits.

    Args:
        tx: A transaction from `database.drain()`.
        versions: Rating versions in use; memories excluded from one of them aren't counted.
    """
    return int(tx.execute(_UNRATED, {"versions": list(versions), "most": COUNTED_MOST}).scalar_one())


_UNRATED = text("""
SELECT count(*) FROM (
  SELECT FROM rating_turns AS turn
  JOIN scores AS score ON score.tenant_id = turn.tenant_id AND score.scorer = 'heuristic'
    AND (score.refused_by IS NULL OR score.refused_by <> ALL (CAST(:versions AS text[])))
  JOIN memories AS memory ON memory.tenant_id = score.tenant_id AND memory.memory_id = score.memory_id
    AND memory.text_version = score.text_version AND memory.deleted_at IS NULL
  JOIN memory_state AS state ON state.tenant_id = score.tenant_id AND state.memory_id = score.memory_id
    AND state.salience_source IS DISTINCT FROM 'caller'
  LIMIT :most
) AS waiting
""")


def empty_recalls(tx: Connection) -> int:
    """Return the number of tenants whose recalls were nearly always empty in their last self-test run with recalls.

    Args:
        tx: A transaction from `database.drain()`.
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


def oldest_last_success(tx: Connection, task: str) -> float | None:
    """Find each tenant's latest complete, successful run of a task, and return the earliest of their finish times.

    The time is in seconds since 1970. Runs that were cut short don't count. For a tenant without a complete run, the
    time of its creation is used. Paused schedules are ignored. Return None if there is no other schedule.
    """
    oldest_success: float | None = tx.execute(_LAST_SUCCESS, {"task": task}).scalar()
    return oldest_success


_LAST_SUCCESS = text("""
SELECT CAST(extract(epoch FROM min(coalesce(last.finished_at, tenants.created_at))) AS float8)
FROM schedules JOIN tenants USING (tenant_id) LEFT JOIN LATERAL (
  SELECT job.finished_at FROM runs AS run JOIN jobs AS job ON job.job_id = run.job_id
  WHERE run.tenant_id = schedules.tenant_id AND run.task = schedules.task AND job.status = 'done'
    AND job.state->>'cut_short' IS NULL
  ORDER BY run.scheduled_for DESC LIMIT 1
) AS last ON true
WHERE schedules.task = :task AND NOT schedules.paused AND tenants.deletion_id IS NULL
""")
