"""Recount a tenant's memories at night and correct its stored counts."""

from __future__ import annotations

from uuid import UUID

import structlog

from app import metrics
from app.store.core import database
from app.store.memories import tenant_counts
from app.store.memories.tenant_counts import TierCounts

log = structlog.get_logger(__name__)


def recount_tenant(tenant_id: UUID) -> TierCounts:
    """Count a tenant's memories row by row and correct its stored counts; return the difference, normally zero."""
    with database.tenant(tenant_id) as tx:
        tenant_counts.lock(tx, tenant_id)
        drift = tenant_counts.measure_drift(tx, tenant_id)
        tenant_counts.add(tx, tenant_id, drift)
    if any(drift):
        metrics.count("counts_corrected")
        log.warning("counts_corrected", tenant=str(tenant_id), **drift._asdict())
    return drift
