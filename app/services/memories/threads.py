"""List threads, and number the memories of a thread."""

from __future__ import annotations

from uuid import UUID

from app.errors import FieldError, Invalid
from app.store.core import database
from app.store.core.paging import Page
from app.store.memories import threads
from app.store.memories.threads import ThreadSummary


def list_threads(tenant_id: UUID, subject: str | None, after: UUID | None, limit: int) -> Page[ThreadSummary]:
    """Return a page of threads by name, starting after the thread whose first memory is `after`.

    Args:
        subject: Only threads with a memory about this subject.

    Raises:
        Invalid: The memory `after` was erased.
    """
    with database.tenant(tenant_id) as tx:
        page = threads.list_threads(tx, tenant_id, subject, after, limit)
    if page is None:
        raise Invalid(errors=[FieldError("cursor", "refers to a thread that was erased: start from the first page")])
    return page


number_turns = database.in_tenant(threads.number_turns)
"""Return each memory's position in its thread, counted from 1, by memory id."""
