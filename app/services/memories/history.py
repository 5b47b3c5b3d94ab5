"""List the events in a memory's history."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from app.services.storage import lookup
from app.services.storage.lookup import Pending
from app.store.core import database
from app.store.core.paging import Page, page_of
from app.store.memories import history
from app.store.memories.history import HistoryEvent


def list_history(
    tenant_id: UUID, memory_id: UUID, older_than: tuple[datetime, int] | None, limit: int
) -> Page[HistoryEvent]:
    """Return a page of a memory's history, newest first. The history of a queued memory has only its acceptance.

    Args:
        older_than: Time and sequence number of the last event of the previous page; None for the first page.

    Raises:
        NotFound: This tenant has no such memory.
    """
    memory = lookup.get(tenant_id, memory_id)
    if isinstance(memory, Pending):
        accepted_at = datetime.fromtimestamp(memory.accepted_ms / 1000, UTC)
        accepted = [HistoryEvent(accepted_at, 0, "accepted", None, None, None)] if older_than is None else []
        return page_of(accepted, limit, lambda row: (row.at, row.place))
    with database.tenant(tenant_id) as tx:
        return history.list_events(tx, tenant_id, memory.memory_id, older_than, limit)
