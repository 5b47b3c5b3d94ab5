"""Start jobs that restore memories from cold storage after they are used."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from app.services.jobs import jobs
from app.services.tiers import cold_restore


def start(tenant_id: UUID, memory_ids: Sequence[UUID]) -> UUID:
    """Create a job that restores the first `cold_restore.IDS_MAX` of these memories. Return its id."""
    told = cold_restore.parameters(memory_ids[: cold_restore.IDS_MAX])
    return jobs.create(tenant_id, cold_restore.KIND, told, lone=False)
