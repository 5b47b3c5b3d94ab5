"""A person at a glance: how much is held about them, and what is asked for."""

from __future__ import annotations

from uuid import UUID

from app.store.core import database
from app.store.memories import subjects
from app.store.memories.subjects import Subject


def get(tenant_id: UUID, subject: str) -> Subject:
    """How much there is about somebody."""
    with database.tenant(tenant_id) as tx:
        return subjects.read(tx, tenant_id, subject)
