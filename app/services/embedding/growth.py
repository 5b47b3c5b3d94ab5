"""A tenant that has grown gets indexes of its own, and one that has shrunk loses them."""

from __future__ import annotations

from uuid import UUID

from app.services.embedding import graphs
from app.services.jobs import jobs


def see_to(tenant_id: UUID) -> None:
    """Have a job make, fill or drop the tenant's own indexes, if it has to."""
    if graphs.is_wanting(tenant_id):
        jobs.create(tenant_id, graphs.KIND, {})
