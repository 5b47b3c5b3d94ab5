"""Restore a memory on request: immediately from the archive, or by a job from cold storage."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from app import queues
from app.errors import NotFound
from app.services.jobs import queue
from app.services.storage import lookup
from app.services.storage.lookup import Pending
from app.services.storage.memory_write import memory_write
from app.services.tiers import cold_restore, reactivation
from app.store.erasure.requests import Erasure
from app.store.memories.memories import StoredMemory


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """The result of a restore request.

    Attributes:
        memory: The memory as it is now; active unless a job is pending.
        job_id: Id of the job that fetches the memory from cold storage; None if no job is needed.
    """

    memory: StoredMemory | Pending
    job_id: UUID | None = None


def _describe_deletion(deletion: Erasure) -> str:
    if deletion.status != "grace":
        return f"Memory not found: it was deleted, and erasure {deletion.erasure_id} can't be cancelled any more"
    return (
        f"Memory not found: it was deleted, and will be erased after {deletion.erase_after:%Y-%m-%d %H:%M} UTC. To "
        f"restore it, cancel erasure {deletion.erasure_id} (`ebbing privacy cancel {deletion.erasure_id}`)"
    )


def restore(tenant_id: UUID, memory_id: UUID, actor: str) -> RestoreResult:
    """Make a memory active again, which counts as a use. Active memories aren't changed.

    A legal hold doesn't prevent a restore, because a restore loses no data.

    Args:
        memory_id: The memory's id or an alias of it.
        actor: Id of the requesting key.

    Raises:
        NotFound: This tenant has no such memory, or it was deleted; the message names the erasure to cancel.
    """
    try:
        memory = lookup.get(tenant_id, memory_id)
    except NotFound:
        deletion = lookup.find_deletion(tenant_id, memory_id)
        if deletion is None:
            raise
        raise NotFound(_describe_deletion(deletion)) from None
    if isinstance(memory, Pending) or memory.tier == "active":
        return RestoreResult(memory)
    with lookup.stored_only(tenant_id, memory_id), memory_write(tenant_id, "state") as write:
        stored_id = lookup.lock(write.tx, tenant_id, memory_id)
        restored = reactivation.restore(write, [stored_id], "hand", actor)
    if restored:
        queues.nudge(queues.EMBED_MEMORIES)
    memory = lookup.get(tenant_id, stored_id)
    if isinstance(memory, Pending) or memory.tier != "cold":
        return RestoreResult(memory)
    parameters = cold_restore.job_parameters([memory.memory_id], rule="hand")
    return RestoreResult(memory, queue.create(tenant_id, cold_restore.KIND, parameters, lone=False, actor=actor))
