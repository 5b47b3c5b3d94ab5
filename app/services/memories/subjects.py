"""Summarise what is stored about a subject: memories, legal holds, exports and open erasures."""

from __future__ import annotations

from uuid import UUID

from app.store.core import database
from app.store.memories import subjects
from app.store.memories.subjects import Subject


def get(tenant_id: UUID, subject: str) -> Subject:
    """Return the counts for a subject."""
    with database.tenant(tenant_id) as tx:
        return subjects.read(tx, tenant_id, subject)
