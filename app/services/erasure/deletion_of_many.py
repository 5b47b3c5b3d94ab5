"""Delete many memories at a caller's request, in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from app import queues
from app.domain.ingest.deletion import DeletionOfMany
from app.domain.privacy.legal_hold import IDS_MAX, Scope
from app.errors import Conflict
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from app.store.core import database
from app.store.enrichment.work_queue import NIL
from app.store.erasure.requests import lock_exclusive
from app.store.memories import deletable
from app.store.privacy import holds


def delete_listed(
    tenant_id: UUID,
    requested_by: str,
    list_after: Callable[[database.Transaction, UUID], list[UUID]],
    finish: Callable[[database.Transaction], None] | None = None,
) -> int:
    """Create erasures for a caller's deletion of many memories, of up to `IDS_MAX` each; nights execute them.

    Args:
        requested_by: Id of the caller's API key.
        list_after: Returns the next ids to delete in ascending order, at most `IDS_MAX`; empty at the end.
        finish: Called at the end of the transaction.

    Returns:
        The number of memories.

    Raises:
        Conflict: A memory is under a legal hold; nothing is deleted.
    """
    deleted, after = 0, NIL
    with database.tenant(tenant_id) as tx:
        holds.lock_shared(tx, tenant_id)
        lock_exclusive(tx, tenant_id)
        while ids := list_after(tx, after):
            held = len(holds.list_by_memory(tx, tenant_id, ids))
            if held:
                raise Conflict(f"legal holds cover {held} of these memories: nothing was deleted")
            options = ErasureOptions(Scope(memory_ids=ids))
            requests.create(tx, tenant_id, requests.new_erasure(database.now(tx), options, requested_by), None)
            deleted, after = deleted + len(ids), ids[-1]
        if finish is not None:
            finish(tx)
    queues.nudge(queues.RIGHTS_TICK)
    return deleted


def delete_wanted(tenant_id: UUID, requested_by: str, wanted: DeletionOfMany) -> int:
    """Delete the memories that a request names, and return their number; raises like `delete_listed`."""
    return delete_listed(
        tenant_id, requested_by, lambda tx, after: deletable.list_deletable(tx, tenant_id, wanted, after, IDS_MAX)
    )
