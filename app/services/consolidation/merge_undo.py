"""Undo a merge: delete its summary with all dependent rows, and reactivate its sources in their previous state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import numpy as np

from app import metrics, queues
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
    """Undo a completed merge; sources that were reactivated by use since remain unchanged.

    Raises:
        NotFound: This tenant has no such merge.
        Conflict: The merge isn't done, its sources are deleted or in cold storage, or one of its memories is under
            legal hold.
    """
    with memory_write(tenant_id, "tier", "undo.before_commit") as write:
        tx = write.tx
        merge = approval.get_or_404(tx, tenant_id, merge_id)
        taken = merges.list_ancestors(tx, tenant_id, [merge_id])
        sources = [each.memory_id for each in taken if each.part != "kept"]
        involved = sorted({*sources, *([merge.summary_id] if merge.summary_id else [])})
        requests.lock_rows(tx, tenant_id, involved)
        states.lock(tx, tenant_id, involved)
        merge = approval.get_or_404(tx, tenant_id, merge_id, lock=True)
        if merge.status != "done":
            raise Conflict(f"only a merge that is done can be undone: this one is {merge.status}")
        back: list[UUID] = []
        if merge.action == "link":
            merged_memories.remove_links(tx, tenant_id, sources)
        else:
            back = _reactivate_sources(write, merge, sources)
        undone: dict[str, Any] = {"status": "undone", "is_stale": False}
        decided = {"decided_at": database.now(tx), "decided_by": actor}
        merges.update_merge(tx, tenant_id, merge_id, undone | decided)
        write.audit("merge_undone", actor, ids=sources, details={"merge": str(merge_id)})
        found = approval.get_or_404(tx, tenant_id, merge_id)
    metrics.count("merges_undone")
    if back:
        queues.nudge(queues.EMBED_MEMORIES)
    return found


def _reactivate_sources(write: MemoryWrite, merge: Merge, sources: Sequence[UUID]) -> list[UUID]:
    tx, tenant_id = write.tx, write.tenant_id
    present = merged_memories.list_present(tx, tenant_id, sources)
    if merge.summary_id is None or not present:
        raise Conflict("the merge can't be undone: its summary or all of its source memories no longer exist")
    _check_here(present)
    back = [each.memory_id for each in present if each.tier == "archived"]
    write.check_free([merge.summary_id, *back])
    write.measure([merge.summary_id, *back])
    write.delete([merge.summary_id], {("restored", "undo"): len(back), ("deleted", "undo"): 1})
    there = embedding_spaces.lock_tenant_spaces(tx, tenant_id)
    lacking = archive.restore_rows(tx, tenant_id, there.searched.space_id if there else None, back)
    tiers.restore(tx, tenant_id, back, None)
    write.queue([work_queue.EMBED], lacking)
    times = memory_strength.load_timeline(tx, tenant_id)
    now = database.now(tx).timestamp()
    era = times.at(now)
    word_index.index_words(tx, tenant_id, back, era.policy.language, era.policy.time_zone)
    held = memory_strength.advance_to_era(states.read(tx, tenant_id, back), times, now)
    strength = memory_strength.evaluate_strength(era, held.state, now).strength
    change = EventChange(now, DECAY_TIERS.index("archived"), np.zeros(len(held)), strength)
    history.add(tx, tenant_id, "tier", held.ids, change)
    return back


def _check_here(present: Sequence[PresentMemory]) -> None:
    cold = [each.memory_id for each in present if each.tier == "cold"]
    if cold:
        named = ", ".join(map(str, cold[:_SHOWN])) + (f" and {len(cold) - _SHOWN} more" if len(cold) > _SHOWN else "")
        way = "restore them first, by POST /v1/memories/{id}/restore"
        raise Conflict(f"{len(cold)} of its sources are in cold storage ({named}): {way}")
