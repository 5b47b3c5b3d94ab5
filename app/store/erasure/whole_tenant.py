"""Delete all rows of a tenant, and count what is left in every table that the catalogue lists.

A test reads the catalogue: each table with a column `tenant_id` must be in `DATA`, `LAST` or `KEYS`, or in `KEPT` with
a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

from app.store.core.binary_arrays import driver_connection, fetch_value

ROWS: Final = 5000
"""Maximum number of rows per call; each call should be a transaction of its own."""
IS_DELETED: Final = """EXISTS (
  SELECT FROM erasures AS deletion
  WHERE deletion.tenant_id = {tenant} AND deletion.whole_tenant AND deletion.status IN ('running', 'verified'))"""
"""SQL condition that the tenant is deleted or that its deletion has started: nothing that arrives is stored."""

DATA: Final = (
    *("memory_windows", "embeddings", "hidden_vectors", "archived_memories", "pca_samples", "memory_words", "words"),
    *(
        "cold_links",
        "cold_memories",
        "segments",
        "exports",
        "imports",
        "dead_letters",
        "tenant_work",
        "rating_turns",
        "recorded_searches",
    ),
    *("links", "lineage", "merges", "decayed_sources", "hidden_supersessions", "supersessions", "memory_aliases"),
    *("scores", "privacy_findings", "reviews", "memory_events", "self_tests", "self_test_runs", "consolidation_runs"),
    *("consolidation_marks", "contradiction_watermarks", "anonymised", "subject_retention", "expiry_notices", "holds"),
    *("hold_changes",),
    *("hidden_memories", "memory_state", "memories", "envelopes", "tombstones", "tenant_counts", "tier_moves"),
    *("queue_gaps", "operator_acts", "operators", "missing_links", "notes", "note_copies"),
    *("activation_history", "tick_averages", "decay_clocks", "changes", "change_heads"),
    *("webhook_deliveries", "webhooks", "memory_writers", "quarantines"),
)
"""Memories, data derived from them, and records about them, in the order in which they are deleted."""
LAST: Final = (
    *("pca_bases", "pca_shares", "tenant_spaces", "policies", "runs", "schedules", "jobs", "api_keys", "erasures"),
)
"""Rows that the deletion itself needs until the memories are gone."""
KEYS: Final = tuple(
    f"ebbing_keys.{name}" for name in ("record_keys", "owner_keys", "digest_keys", "kept_holds", "erasure_requests")
)
"""Rows of the key store; without them, copies of cold storage and exports can't be read."""
KEPT: Final = {
    "tenants": "the tombstone: the id, the dates and the id of the deletion; the name is replaced by the id",
    "audit": "proof of what was done; contains no text and no name",
    "audit_heads": "the end of the audit chain; its key for digests of names is replaced",
    "privacy_requests": "the request log: kinds, dates and answers; texts of operators are deleted",
    "usage": "calls and costs by day and host, for invoices and the list of recipients",
    "ebbing_keys.erasure_ledger": "deletes the tenant again when an older backup is restored",
}
"""Tables that retain rows of a deleted tenant, with the reason."""
_OWN_ROWS: Final = {
    "erasures": "erasure_id = %(erasure)s",
    "jobs": "kind = 'erase' AND parameters->>'erasure_id' = CAST(%(erasure)s AS text)",
}
"""Rows of the deletion itself, which remain."""


def count_rows(tx: Connection, tenant_id: UUID, erasure_id: UUID, tables: Sequence[str]) -> dict[str, int]:
    """Count the tenant's rows by table, without those of the deletion itself."""
    values = {"tenant": tenant_id, "erasure": erasure_id}
    return {
        table: int(fetch_value(tx, f"SELECT count(*) FROM {table} WHERE {_condition(table)}", values))  # noqa: S608
        for table in tables
    }


def delete_rows(tx: Connection, tenant_id: UUID, erasure_id: UUID, table: str) -> int:
    """Delete up to `ROWS` of the tenant's rows of a table. Return their number; repeat until it is 0."""
    values = {"tenant": tenant_id, "erasure": erasure_id, "limit": ROWS}
    if table == "holds":  # the role can't delete them otherwise
        return int(fetch_value(tx, _DELETE_HOLDS, values))
    condition = _condition(table)
    statement = f"""
DELETE FROM {table}
WHERE {condition} AND ctid = ANY (ARRAY(SELECT ctid FROM {table} WHERE {condition} LIMIT %(limit)s))
"""  # noqa: S608 - names from code
    return driver_connection(tx).execute(statement.encode(), values).rowcount


_DELETE_HOLDS: Final = "SELECT delete_holds_of_tenant(%(tenant)s)"


def _condition(table: str) -> str:
    own = f" AND NOT ({_OWN_ROWS[table]})" if table in _OWN_ROWS else ""
    return f"tenant_id = %(tenant)s{own}"


def count_left(tx: Connection, tenant_id: UUID, erasure_id: UUID) -> dict[str, int]:
    """Count the tenant's rows in every table of the catalogue except `KEPT`, also in tables that no step deletes."""
    return {
        table: count
        for table, count in count_rows(tx, tenant_id, erasure_id, list_tables(tx)).items()
        if table not in KEPT
    }


def list_tables(tx: Connection) -> list[str]:
    """Return the tables with a column `tenant_id`, those of the key store with their schema."""
    return [name for (name,) in driver_connection(tx).execute(_TABLES).fetchall()]


_TABLES: Final = """
SELECT CASE nspname WHEN 'public' THEN '' ELSE nspname || '.' END || relname
FROM pg_attribute
JOIN pg_class ON pg_class.oid = attrelid AND relkind IN ('r', 'p')
JOIN pg_namespace ON pg_namespace.oid = relnamespace AND nspname IN ('public', 'ebbing_keys')
WHERE attname = 'tenant_id' AND NOT attisdropped
ORDER BY 1
"""


def lock_jobs(tx: Connection, tenant_id: UUID, erasure_id: UUID) -> int:
    """Delete the tenant's jobs that no worker runs, except the deletion's. Return the number that still run."""
    values: dict[str, Any] = {"tenant": tenant_id, "erasure": erasure_id}
    driver_connection(tx).execute(_DROP_JOBS.encode(), values)
    return int(fetch_value(tx, _RUNNING_JOBS, values))


_RUNNING: Final = "status IN ('queued', 'running') AND claim IS NOT NULL AND claimed_until > now()"
_DROP_JOBS: Final = f"DELETE FROM jobs WHERE {_condition('jobs')} AND NOT ({_RUNNING})"  # noqa: S608 - constants
_RUNNING_JOBS: Final = f"SELECT count(*) FROM jobs WHERE {_condition('jobs')} AND {_RUNNING}"  # noqa: S608 - constants


def settle_requests(tx: Connection, tenant_id: UUID) -> None:
    """Answer the tenant's open privacy requests, and delete the texts of the request log."""
    driver_connection(tx).execute(_SETTLE, {"tenant": tenant_id})


_SETTLE: Final = """
UPDATE privacy_requests SET
  answered_at = coalesce(answered_at, now()),
  answer = coalesce(answer, CASE nature WHEN 'erasure' THEN 'done' ELSE 'cancelled' END),
  controller = NULL, case_reference = NULL, basis = NULL, extension_reason = NULL, identity_note = NULL
WHERE tenant_id = %(tenant)s
"""


def replace_subject_key(tx: Connection, tenant_id: UUID, fresh: bytes) -> None:
    """Replace the key of the audit log's digests of names, so that nobody can test a name against them."""
    driver_connection(tx).execute(_REPLACE_KEY, {"tenant": tenant_id, "key": fresh})


_REPLACE_KEY: Final = "UPDATE audit_heads SET subject_key = %(key)s WHERE tenant_id = %(tenant)s"
