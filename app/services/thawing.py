"""Restores from cold storage, as jobs: when somebody asks for one, and when a cold memory is used."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from app.services import cold_restore, jobs
from app.store import cold, database


def start(tenant_id: UUID, memory_ids: Sequence[UUID]) -> UUID:
    """Enter a job that restores these memories, at most `cold_restore.IDS_MAX`. Returns its id."""
    return jobs.create(tenant_id, cold_restore.KIND, cold_restore.parameters(memory_ids), lone=False)


def start_for_used(tenant_id: UUID, memory_ids: Sequence[UUID]) -> UUID | None:
    """The same of those that are cold among memories that were just used; None where none is."""
    with database.tenant(tenant_id) as tx:
        found = list(cold.places(tx, tenant_id, memory_ids))
    return start(tenant_id, found[: cold_restore.IDS_MAX]) if found else None
