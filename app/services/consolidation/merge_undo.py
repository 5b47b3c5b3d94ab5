"""Undo a merge: delete its summary with all dependent rows, and reactivate its sources in their previous state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import numpy as np

from app import metrics, queues
from app.domain.changes.types import RESTORED
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.errors import Conflict
from app.services.consolidation import approval
from app.services.storage.memory_write import MemoryWrite, memory_write
from app.services.strength import memory_strength
from app.store.consolidation import merged_memories, merges
from app.store.consolidation.merged_memories import PresentMemory
from app.store.consolidation.merges import Merge
from app.store.core import database
from app.store.embedding import embedding_spaces
from app.store.enrichment import word_index, work_queue
from app.store.erasure import requests
from app.store.memories import history
from app.store.memories.history import EventChange
from app.store.strength import states
from app.store.tiers import archive, tiers

_SHOWN: Final = 3


def undo_merge(tenant_id: UUID, merge_id: UUID, actor: str) -> Merge:
    """Undo a completed merge; sources that were reactivated by use in the meantime remain unchanged.

    Raises:
        NotFound: This tenant has no such merge.
        Conflict: The merge isn't done, its summary or all its sources are deleted, a source is in cold storage, or
            one of its memories is under legal hold.
    """
    with memory_write(tenant_id, "tier", "undo.before_commit") as write:
        tx = write.tx
        merge = approval.get_or_404(tx, tenant_id, merge_id)
        ancestors = merges.list_ancestors(tx, tenant_id, [merge_id])
        sources = [ancestor.memory_id for ancestor in ancestors if ancestor.part != "kept"]
        involved = sorted({*sources, *([merge.summary_id] if merge.summary_id else [])})
        requests.lock_rows(tx, tenant_id, involved)
        states.lock(tx, tenant_id, involved)
        merge = approval.get_or_404(tx, tenant_id, merge_id, lock=True)
        if merge.status != "done":
            raise Conflict(f"only a merge with status done can be undone, but this merge has status {merge.status}")
        reactivated: list[UUID] = []
        if merge.action == "link":
            merged_memories.remove_links(tx, tenant_id, sources)
        else:
            reactivated = _reactivate_sources(write, merge, sources)
        undone: dict[str, Any] = {"status": "undone", "is_stale": False}
        decision = {"decided_at": database.now(tx), "decided_by": actor}
        merges.update_merge(tx, tenant_id, merge_id, undone | decision)
        write.audit("merge_undone", actor, ids=sources, details={"merge": str(merge_id)})
        updated = approval.get_or_404(tx, tenant_id, merge_id)
    metrics.count("merges_undone")
    if reactivated:
        queues.nudge(queues.EMBED_MEMORIES)
    return updated


def _reactivate_sources(write: MemoryWrite, merge: Merge, sources: Sequence[UUID]) -> list[UUID]:
    tx, tenant_id = write.tx, write.tenant_id
    present = merged_memories.list_present(tx, tenant_id, sources)
    if merge.summary_id is None or not present:
        raise Conflict("the merge can't be undone: its summary or all of its source memories no longer exist")
    _check_here(present)
    archived_ids = [source.memory_id for source in present if source.tier == "archived"]
    write.check_free([merge.summary_id, *archived_ids])
    write.measure([merge.summary_id, *archived_ids])
    write.delete([merge.summary_id], {("restored", "undo"): len(archived_ids), ("deleted", "undo"): 1})
    spaces = embedding_spaces.lock_tenant_spaces(tx, tenant_id)
    without_vector = archive.restore_rows(tx, tenant_id, spaces.searched.space_id if spaces else None, archived_ids)
    tiers.restore(tx, tenant_id, archived_ids, None)
    write.queue([work_queue.EMBED], without_vector)
    write.report(RESTORED, archived_ids)
    times = memory_strength.load_timeline(tx, tenant_id)
    now = database.now(tx).timestamp()
    era = times.at(now)
    word_index.index_words(tx, tenant_id, archived_ids, era.policy.language, era.policy.time_zone)
    stored = memory_strength.advance_to_era(states.read(tx, tenant_id, archived_ids), times, now)
    strength = memory_strength.evaluate_strength(era, stored.state, now).strength
    change = EventChange(now, DECAY_TIERS.index("archived"), np.zeros(len(stored)), strength)
    history.add(tx, tenant_id, "tier", stored.ids, change)
    return archived_ids


def _check_here(present: Sequence[PresentMemory]) -> None:
    cold_ids = [memory.memory_id for memory in present if memory.tier == "cold"]
    if cold_ids:
        listed = ", ".join(map(str, cold_ids[:_SHOWN])) + (
            f" and {len(cold_ids) - _SHOWN} more" if len(cold_ids) > _SHOWN else ""
        )
        remedy = "restore them first with POST /v1/memories/{id}/restore"
        raise Conflict(f"{len(cold_ids)} of the merge's sources are in cold storage ({listed}): {remedy}")
