"""Restores from cold storage, as jobs: when somebody asks for one, and when a cold memory is used."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from app.services.jobs import jobs
from app.services.tiers import cold_restore


def start(tenant_id: UUID, memory_ids: Sequence[UUID]) -> UUID:
    """Enter a job that restores these memories, the first `cold_restore.IDS_MAX` of them. Returns its id."""
    told = cold_restore.parameters(memory_ids[: cold_restore.IDS_MAX])
    return jobs.create(tenant_id, cold_restore.KIND, told, lone=False)
