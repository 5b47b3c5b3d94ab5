"""Create or drop dedicated indexes when a tenant crosses the size threshold."""

from __future__ import annotations

from uuid import UUID

from app.services.embedding import graphs
from app.services.jobs import jobs


def see_to(tenant_id: UUID) -> None:
    """Create a job for the tenant's dedicated indexes if they must be created, filled or dropped."""
    if graphs.is_wanting(tenant_id):
        jobs.create(tenant_id, graphs.KIND, {})
