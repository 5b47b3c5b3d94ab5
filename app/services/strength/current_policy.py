"""Read a tenant's policy in force."""

from __future__ import annotations

from uuid import UUID

from app.domain.policy.policy import Policy
from app.store.core import database
from app.store.tenants import policies


def read(tenant_id: UUID) -> Policy:
    """Return the policy in force for a tenant."""
    with database.tenant(tenant_id) as tx:
        return policies.read_current(tx, tenant_id)
