"""The steps of a tenant's deletion, which the engine of erasures executes like those of any other erasure.

Rows are deleted table by table instead of memory by memory: no memories remain for which document frequencies, context
and chains of supersessions would have to be maintained, as after the deletion of single memories.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

from app import failpoints, queues
from app.clients.object_store import cold_store
from app.clients.redis import closed_tenants
from app.clients.redis.stream import backlog
from app.services.erasure.steps import (
    STEP_SECONDS,
    STEPS,
    ErasureStep,
    StepCount,
    StepProgress,
    name_store,
    step_transaction,
)
from app.services.notes import note_erasure
from app.services.privacy import export_requests, import_files
from app.services.tiers import cold_storage, pca_refit
from app.settings import settings
from app.store.core import database
from app.store.embedding import embedding_spaces, tenant_indexes
from app.store.erasure import whole_tenant
from app.store.erasure.requests import Erasure

_POLL_SECONDS: Final = 0.05


def steps_for(erasure: Erasure) -> Mapping[str, ErasureStep]:
    """Return the steps of an erasure, in execution order."""
    return TENANT_STEPS if erasure.whole_tenant else STEPS


# --- Objects of cold storage, exports and imports ---


def _folders(tenant_id: UUID) -> tuple[str, str, str]:
    segments = cold_storage.segment_path(tenant_id, UUID(int=0)).rpartition("/")[0]
    return segments, export_requests.export_folder(tenant_id), import_files.folder(tenant_id)


def _list_paths(tenant_id: UUID, erasure: Erasure) -> Iterator[str]:
    with database.tenant(tenant_id) as tx:
        has_rows = any(
            whole_tenant.count_rows(tx, tenant_id, erasure.erasure_id, ("segments", "exports", "imports")).values()
        )
    # Objects are written only with a master key; without one, the store isn't opened.
    if has_rows or settings().master_key is not None:
        for folder in _folders(tenant_id):
            yield from (stored.path for stored in cold_store().list_folder(folder))


def _find_files(tenant_id: UUID, erasure: Erasure, _ids: Sequence[UUID]) -> StepCount:
    return StepCount(sum(1 for _ in _list_paths(tenant_id, erasure)))


def _erase_files(tenant_id: UUID, erasure: Erasure, _ids: Sequence[UUID], _at: str, until: float) -> StepProgress:
    with step_transaction(tenant_id, erasure, "tenant_files"):
        pass  # the store isn't called within a transaction; deleting an object twice is harmless
    removed = 0
    for path in list(_list_paths(tenant_id, erasure)):
        cold_store().delete(path)
        removed += 1
        if time.monotonic() >= until:
            return StepProgress("again", removed)
    return StepProgress(None, removed)


# --- The queue ---


def _find_queue(tenant_id: UUID, _erasure: Erasure, _ids: Sequence[UUID]) -> StepCount:
    return StepCount(backlog().entries(tenant_id))


def _erase_queue(tenant_id: UUID, erasure: Erasure, _ids: Sequence[UUID], _at: str, until: float) -> StepProgress:
    """Wait until workers have dropped the entries that wait, then delete the stream."""
    with step_transaction(tenant_id, erasure, "tenant_queue") as tx:
        planned = _planned(erasure, "tenant_queue")
        del tx
    queues.nudge(queues.DRAIN)
    until = min(until, time.monotonic() + STEP_SECONDS)
    while closed_tenants.delete_stream(tenant_id):
        if time.monotonic() >= until:
            return StepProgress("again", 0)
        time.sleep(_POLL_SECONDS)
    return StepProgress(None, planned)


def _planned(erasure: Erasure, step: str) -> int:
    return sum(each["found"] - each.get("earlier", 0) for each in erasure.plan or () if each["step"] == step)


# --- Rows ---


def _find_memories(tenant_id: UUID, erasure: Erasure, _ids: Sequence[UUID]) -> StepCount:
    with database.tenant(tenant_id) as tx:
        tables = whole_tenant.count_rows(tx, tenant_id, erasure.erasure_id, whole_tenant.DATA)
    return StepCount(tables["memories"], {"tables": tables})


def _erase_memories(tenant_id: UUID, erasure: Erasure, _ids: Sequence[UUID], at: str, until: float) -> StepProgress:
    """Delete the rows of `whole_tenant.DATA`, once no worker runs another job of the tenant."""
    if not at:
        if not _are_jobs_over(tenant_id, erasure, until):
            return StepProgress("", 0)
        _drop_indexes(tenant_id, erasure)
    return _delete(tenant_id, erasure, "memories", whole_tenant.DATA, int(at or 0), until, counted="memories")


def _are_jobs_over(tenant_id: UUID, erasure: Erasure, until: float) -> bool:
    """Delete the tenant's other jobs, and return whether no worker runs one."""
    until = min(until, time.monotonic() + STEP_SECONDS)
    while True:
        with step_transaction(tenant_id, erasure, "memories") as tx:
            running = whole_tenant.lock_jobs(tx, tenant_id, erasure.erasure_id)
        if not running:
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(_POLL_SECONDS)


def _drop_indexes(tenant_id: UUID, erasure: Erasure) -> None:
    with step_transaction(tenant_id, erasure, "memories") as tx:
        spaces = embedding_spaces.read_tenant_spaces(tx, tenant_id)
        if spaces is not None and spaces.graph_space_id is not None:
            tenant_indexes.drop_indexes(tx, tenant_id, spaces.graph_space_id)


def _find_rows(tenant_id: UUID, erasure: Erasure, _ids: Sequence[UUID]) -> StepCount:
    return _count(tenant_id, erasure, whole_tenant.LAST)


def _erase_rows(tenant_id: UUID, erasure: Erasure, _ids: Sequence[UUID], at: str, until: float) -> StepProgress:
    return _delete(tenant_id, erasure, "tenant_rows", whole_tenant.LAST, int(at or 0), until)


def _find_keys(tenant_id: UUID, erasure: Erasure, _ids: Sequence[UUID]) -> StepCount:
    return _count(tenant_id, erasure, whole_tenant.KEYS)


def _erase_keys(tenant_id: UUID, erasure: Erasure, _ids: Sequence[UUID], at: str, until: float) -> StepProgress:
    return _delete(tenant_id, erasure, "tenant_keys", whole_tenant.KEYS, int(at or 0), until)


def _count(tenant_id: UUID, erasure: Erasure, tables: Sequence[str]) -> StepCount:
    with database.tenant(tenant_id) as tx:
        return StepCount(sum(whole_tenant.count_rows(tx, tenant_id, erasure.erasure_id, tables).values()))


def _delete(
    tenant_id: UUID,
    erasure: Erasure,
    step: str,
    tables: Sequence[str],
    position: int,
    until: float,
    *,
    counted: str | None = None,
) -> StepProgress:
    """Delete the tenant's rows of `tables[position:]`; `counted` limits the count to one table."""
    removed = 0
    while position < len(tables):
        with step_transaction(tenant_id, erasure, step) as tx:
            deleted = whole_tenant.delete_rows(tx, tenant_id, erasure.erasure_id, tables[position])
            failpoints.trigger("erasing.before_commit")
        removed += deleted if counted in (None, tables[position]) else 0
        position += not deleted
        if time.monotonic() >= until and position < len(tables):
            return StepProgress(str(position), removed)
    return StepProgress(None, removed)


# --- Notes ---


def _find_notes(tenant_id: UUID, _erasure: Erasure, _ids: Sequence[UUID]) -> StepCount:
    return StepCount(note_erasure.count_notes_of_tenant(tenant_id))


def _erase_notes(tenant_id: UUID, erasure: Erasure, _ids: Sequence[UUID], _at: str, _until: float) -> StepProgress:
    """Remove the tenant's notes; the step `memories` has waited for the end of the jobs that write notes."""
    planned = _planned(erasure, "note_files")
    with step_transaction(tenant_id, erasure, "note_files"):
        pass  # removing a file twice is harmless
    return StepProgress(None, max(planned, note_erasure.remove_notes_of_tenant(tenant_id, planned)))


# --- Shared PCA bases ---


def _find_bases(tenant_id: UUID, _erasure: Erasure, _ids: Sequence[UUID]) -> StepCount:
    return StepCount(len(pca_refit.list_shared_with(tenant_id)))


def _erase_bases(tenant_id: UUID, erasure: Erasure, _ids: Sequence[UUID], _at: str, until: float) -> StepProgress:
    """Refit the shared bases that may have been fitted on this tenant's vectors, which are deleted."""
    with step_transaction(tenant_id, erasure, "bases"):
        pass  # bases belong to other tenants too; refitting them twice is harmless
    pca_refit.check_complete(tenant_id)
    is_done, removed = pca_refit.refit_shared(tenant_id, pca_refit.list_shared_with(tenant_id), until)
    return StepProgress(None if is_done else "again", removed)


TENANT_STEPS: Final[dict[str, ErasureStep]] = {
    "tenant_files": ErasureStep(name_store("tenant_files"), "deleted", _find_files, _erase_files),
    "tenant_queue": ErasureStep(name_store("tenant_queue"), "dropped", _find_queue, _erase_queue),
    "memories": ErasureStep(name_store("memories"), "deleted", _find_memories, _erase_memories),
    "note_files": ErasureStep(name_store("note_files"), "deleted", _find_notes, _erase_notes),
    "bases": ErasureStep(name_store("bases"), "computed again without the erased vectors", _find_bases, _erase_bases),
    "tenant_rows": ErasureStep(name_store("tenant_rows"), "deleted", _find_rows, _erase_rows),
    "tenant_keys": ErasureStep(name_store("tenant_keys"), "destroyed", _find_keys, _erase_keys),
}
