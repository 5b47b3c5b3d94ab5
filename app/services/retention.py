"""Housekeeping of what is kept for a limited time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import UUID

from app import metrics
from app.services import audit, counts, quota
from app.settings import settings
from app.store import arrivals, database, dead_letters, events, jobs, policies

SLICE_ROWS: Final = 5000
# A replay may come as late as a client may repeat a request, and a redelivery takes at most this much longer.
REDELIVERY_SECONDS: Final = 7 * 86_400
# Jobs that ended, and letters that somebody discarded, are what happened: kept for as long as people ask.
RECORDS_DAYS: Final = 90


def keep_house(tenant_id: UUID) -> int:
    """Count anew, look at the quota and the audit, and delete what has been kept for its time. Returns how many."""
    counts.recount(tenant_id)
    quota.watch(tenant_id)
    audit.watch(tenant_id)
    return purge(tenant_id)


def purge(tenant_id: UUID) -> int:
    """Delete what has been kept for its time: ledger rows, ended jobs, discarded letters, history. Returns how many."""
    with database.tenant(tenant_id) as tx:
        history_days = policies.current(tx, tenant_id).history_days
    return (
        purge_ledger(tenant_id)
        + _purge_records(tenant_id, jobs.purge, RECORDS_DAYS)
        + _purge_records(tenant_id, dead_letters.purge, RECORDS_DAYS)
        + _purge_records(tenant_id, events.purge, history_days)
    )


def _purge_records(
    tenant_id: UUID, delete: Callable[[database.Transaction, UUID, int, int], int], age_days: int
) -> int:
    purged = 0
    while True:
        with database.tenant(tenant_id) as tx:
            rows = delete(tx, tenant_id, age_days, SLICE_ROWS)
        purged += rows
        if rows < SLICE_ROWS:
            return purged


def purge_ledger(tenant_id: UUID) -> int:
    """Delete the tenant's ledger rows that no replay can need any more. Returns how many."""
    age_seconds = settings().idempotency_hours * 3600 + REDELIVERY_SECONDS
    purged = 0
    while True:
        with database.tenant(tenant_id) as tx:
            before_ms = int((database.now(tx).timestamp() - age_seconds) * 1000)
            rows = arrivals.purge(tx, tenant_id, before_ms, SLICE_ROWS)
        purged += rows
        if rows < SLICE_ROWS:
            metrics.count("ledger_purged_rows", purged)
            return purged
