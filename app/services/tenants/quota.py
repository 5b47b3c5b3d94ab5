"""Compare a tenant's storage use with its quota. Exceeding it refuses nothing; the operator is notified."""

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
        state: `near` from the policy's `quota_near` share on, `over` above the quota.
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
    there = embedding_spaces.read_tenant_spaces(tx, tenant_id)
    return compute_usage(counts, there.searched.dimensions if there else 0, policy.quota_bytes, policy.quota_near)


def compute_usage(counts: TierCounts, dimensions: int, quota_bytes: int | None, near: float) -> QuotaUsage:
    """Compute the storage use of this many memories with vectors of this many dimensions."""
    vectors = counts.active * dimensions + counts.archived * min(dimensions, _REDUCED_DIMENSIONS)
    taken = counts.text_bytes + vectors * _HALF_BYTES
    how: State = "below"
    if quota_bytes is not None and taken >= quota_bytes * near:
        how = "over" if taken > quota_bytes else "near"
    return QuotaUsage(counts.text_bytes, vectors * _HALF_BYTES, quota_bytes, how)


def warn_near_quota(tenant_id: UUID) -> QuotaUsage:
    """Log and count a warning if a tenant is near or over its quota."""
    with database.tenant(tenant_id) as tx:
        room = quota_status(tx, tenant_id)
    if room.state in _STATES:
        metrics.count(_STATES[room.state])
        log.warning(
            _STATES[room.state], tenant=str(tenant_id), taken_bytes=room.taken_bytes, quota_bytes=room.quota_bytes
        )
    return room
