"""Compare a tenant's storage use with its quota. Writes are accepted above the quota; only the operator is notified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

import structlog

from app import metrics
from app.store.core import database
from app.store.embedding import embedding_spaces
from app.store.memories import tenant_counts
from app.store.memories.tenant_counts import TierCounts
from app.store.tenants import policies

State = Literal["below", "near", "over"]

_HALF_BYTES: Final = 2
_REDUCED_DIMENSIONS: Final = 128
_STATES: Final = {"near": "quota_near", "over": "quota_over"}

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class QuotaUsage:
    """A tenant's storage use.

    Attributes:
        text_bytes: Size of the memory texts in the database, in UTF-8.
        vector_bytes: Estimated size of the vectors, assuming one search vector per memory.
        quota_bytes: The quota; None if unlimited.
        state: `near` above the policy's `quota_near` share, `over` above the quota.
    """

    text_bytes: int
    vector_bytes: int
    quota_bytes: int | None
    state: State

    @property
    def taken_bytes(self) -> int:
        """Total size of texts and vectors."""
        return self.text_bytes + self.vector_bytes


def quota_status(tx: database.Transaction, tenant_id: UUID) -> QuotaUsage:
    """Return a tenant's storage use."""
    return get_usage(tx, tenant_id, tenant_counts.read(tx, tenant_id))


def get_usage(tx: database.Transaction, tenant_id: UUID, counts: TierCounts) -> QuotaUsage:
    """Compute a tenant's storage use from known counts."""
    policy = policies.read_current(tx, tenant_id)
    spaces = embedding_spaces.read_tenant_spaces(tx, tenant_id)
    return compute_usage(counts, spaces.searched.dimensions if spaces else 0, policy.quota_bytes, policy.quota_near)


def compute_usage(counts: TierCounts, dimensions: int, quota_bytes: int | None, near: float) -> QuotaUsage:
    """Compute the storage use of this many memories with vectors of this many dimensions."""
    vectors = counts.active * dimensions + counts.archived * min(dimensions, _REDUCED_DIMENSIONS)
    used_bytes = counts.text_bytes + vectors * _HALF_BYTES
    state: State = "below"
    if quota_bytes is not None and used_bytes > quota_bytes * near:
        state = "over" if used_bytes > quota_bytes else "near"
    return QuotaUsage(counts.text_bytes, vectors * _HALF_BYTES, quota_bytes, state)


def warn_near_quota(tenant_id: UUID) -> QuotaUsage:
    """Log and count a warning if a tenant is near or over its quota. Return its storage use."""
    with database.tenant(tenant_id) as tx:
        usage = quota_status(tx, tenant_id)
    if usage.state in _STATES:
        metrics.count(_STATES[usage.state])
        log.warning(
            _STATES[usage.state], tenant=str(tenant_id), taken_bytes=usage.taken_bytes, quota_bytes=usage.quota_bytes
        )
    return usage
