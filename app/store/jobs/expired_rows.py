"""Delete rows whose retention period has ended, a limited number per call."""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text


class _Rows(NamedTuple):
    """Rows of a table to be deleted.

    Attributes:
        key: The primary key's columns after `tenant_id`.
        expired: SQL condition on rows that expired before `:before`, followed by an order and a lock where they matter.
        part: Table of dependent rows with the same key, which are deleted too.
    """

    table: str
    key: str
    expired: str
    part: str | None = None


_EXPIRED: Final = {
    # An envelope's base begins with its timestamp. Envelopes to which a dead letter refers are retained: they may have
    # been stored before the letter was written, and a replay of the letter must detect that.
    "ledger": _Rows(
        "envelopes",
        "base",
        """base < CAST(rpad(lpad(to_hex(
    CAST(floor(extract(epoch FROM CAST(:before AS timestamptz)) * 1000) AS bigint)), 12, '0'), 32, '0') AS uuid)
  AND NOT EXISTS (
    SELECT FROM dead_letters AS letter
    WHERE letter.tenant_id = :tenant AND letter.discarded_at IS NULL AND letter.stage = 'drain'
      AND substring(letter.header FROM 3 FOR 16) = uuid_send(envelopes.base))
  ORDER BY base""",
    ),
    "runs": _Rows(
        "runs",
        "run_id",
        """scheduled_for < :before AND NOT EXISTS (
    SELECT FROM jobs WHERE jobs.job_id = runs.job_id AND jobs.finished_at IS NULL)""",
    ),
    "jobs": _Rows("jobs", "job_id", "finished_at < :before"),
    "letters": _Rows("dead_letters", "letter_id", "discarded_at < :before"),
    "operators": _Rows("operator_acts", "act_id", "at < :before"),
    "people": _Rows("operators", "operator_id", "seen_at < :before"),
    "history": _Rows("memory_events", "memory_id, at, event_id", "at < :before"),
    "moves": _Rows(
        "tier_moves", "day, move, rule", "day < CAST(CAST(:before AS timestamptz) AT TIME ZONE 'UTC' AS date)"
    ),
    "self_tests": _Rows("self_test_runs", "run_id", "started_at < :before", "self_tests"),
    # Merges are retained longer than the consolidation run that made them.
    "consolidations": _Rows("consolidation_runs", "run_id", "started_at < :before"),
    "names": _Rows("supersessions", "supersession_id", "status = 'waiting' AND made_at < :before"),
    "link_names": _Rows("missing_links", "memory_id, named, kind", "made_at < :before"),
    "searches": _Rows(
        "recorded_searches",
        "search_id",
        "searched_at < :before ORDER BY searched_at, search_id FOR UPDATE SKIP LOCKED",
    ),
    "deliveries": _Rows("webhook_deliveries", "webhook_id, delivery_id", "created_at < :before"),
    "exports": _Rows("exports", "export_id", "status = 'expired' AND expires_at < :before"),
    "requests": _Rows("privacy_requests", "request_id", "answered_at < :before"),
}
# Materialised: an inlined subquery may run once per row and select different rows each time.
_DELETE: Final = """WITH gone AS MATERIALIZED (
  SELECT {key} FROM {table} WHERE tenant_id = :tenant AND {expired} LIMIT :limit
){parts} DELETE FROM {table} WHERE tenant_id = :tenant AND ({key}) IN (SELECT * FROM gone)"""
_PARTS: Final = ", parts AS (DELETE FROM {part} WHERE tenant_id = :tenant AND {key} IN (SELECT * FROM gone))"
_STATEMENTS: Final = {
    name: text(_DELETE.format(**rows._asdict(), parts=_PARTS.format(**rows._asdict()) if rows.part else ""))
    for name, rows in _EXPIRED.items()
}


def delete_expired(tx: Connection, tenant_id: UUID, name: str, before: datetime, limit: int) -> int:
    """Delete up to `limit` rows of one kind that expired before this time, and return the number deleted.

    Repeat the call while it returns `limit`.

    Args:
        name: The kind of rows: a key of `_EXPIRED`.
    """
    return tx.execute(_STATEMENTS[name], {"tenant": tenant_id, "before": before, "limit": limit}).rowcount
