"""List consolidation runs and merges, and show a merge with its source memories and texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from app.domain.consolidation.group_types import Method, Summary
from app.services.consolidation import approval
from app.services.storage import lookup
from app.store.consolidation import consolidation_runs, merged_memories, merges
from app.store.consolidation.merged_memories import PresentMemory
from app.store.consolidation.merges import Ancestor, Merge, Status
from app.store.core import database
from app.store.core.paging import Page, Place


@dataclass(frozen=True, slots=True)
class MergeWithMemories:
    """A merge with its memories in id order."""

    merge: Merge
    ancestors: list[Ancestor]


@dataclass(frozen=True, slots=True)
class MergePreview:
    """The texts of a merge's memories next to its summary.

    Attributes:
        texts: The memories that aren't deleted.
        summary: The stored summary, or the summary that a waiting merge would get; None if there is none.
        kept: Ids of the memories that the merge leaves, or would leave, unmerged.
    """

    merge: Merge
    texts: list[PresentMemory]
    summary: Summary | None
    kept: list[UUID]


list_runs = database.in_tenant(consolidation_runs.list_runs)
"""List consolidation runs, newest first; see `store.consolidation.consolidation_runs.list_runs`."""


def list_merges(
    tenant_id: UUID, status: Status | None, older_than: Place | None, limit: int
) -> Page[MergeWithMemories]:
    """List merges, newest first; see `store.consolidation.merges.list_merges`."""
    with database.tenant(tenant_id) as tx:
        listed = merges.list_merges(tx, tenant_id, status, older_than, limit)
        return Page(_with_memories(tx, tenant_id, listed), listed.following)


def sample_texts(tenant_id: UUID, shown: Sequence[MergeWithMemories]) -> dict[UUID, str]:
    """Return the text of each merge's first memory, by merge id; merges whose first memory is deleted are omitted."""
    merge_by_memory = {entry.ancestors[0].memory_id: entry.merge.merge_id for entry in shown if entry.ancestors}
    with database.tenant(tenant_id) as tx:
        return {
            merge_by_memory[memory.memory_id]: memory.text
            for memory in merged_memories.list_present(tx, tenant_id, list(merge_by_memory))
        }


def get(tenant_id: UUID, merge_id: UUID) -> MergeWithMemories:
    """Return a merge.

    Raises:
        NotFound: This tenant has no such merge.
    """
    with database.tenant(tenant_id) as tx:
        return _with_memories(tx, tenant_id, [approval.get_or_404(tx, tenant_id, merge_id)])[0]


def list_lineage(tenant_id: UUID, memory_id: UUID) -> tuple[UUID, list[MergeWithMemories]]:
    """Return a memory's stored id, and the merges that created or include the memory, newest first.

    Raises:
        NotFound: This tenant has no such memory.
    """
    stored_id = lookup.get(tenant_id, memory_id).memory_id
    with database.tenant(tenant_id) as tx:
        return stored_id, _with_memories(tx, tenant_id, merges.list_by_memory(tx, tenant_id, stored_id))


def preview_merge(tenant_id: UUID, merge_id: UUID, *, making: bool = True) -> MergePreview:
    """Return the texts of a merge's memories and its summary; a waiting merge's summary is generated but not stored.

    Args:
        making: Whether to generate the summary of a waiting merge, by a model if one is configured.

    Raises:
        NotFound: This tenant has no such merge.
    """
    shown = get(tenant_id, merge_id)
    merge = shown.merge
    with database.tenant(tenant_id) as tx:
        texts = merged_memories.list_present(tx, tenant_id, [ancestor.memory_id for ancestor in shown.ancestors])
        stored = merged_memories.list_present(tx, tenant_id, [merge.summary_id]) if merge.summary_id else []
    if merge.status == "waiting" and making:
        summary, unmerged = approval.preview_approval(tenant_id, merge)
        return MergePreview(merge, texts, summary, unmerged)
    summary = None
    if stored:
        method: Method = "llm" if merge.method == "llm" else "extractive"
        summary = Summary(stored[0].text, tuple(merge.key_points), method, merge.model)
    return MergePreview(
        merge, texts, summary, [ancestor.memory_id for ancestor in shown.ancestors if ancestor.part == "kept"]
    )


def _with_memories(tx: database.Transaction, tenant_id: UUID, found: list[Merge]) -> list[MergeWithMemories]:
    by_id = {merge.merge_id: MergeWithMemories(merge, []) for merge in found}
    for ancestor in merges.list_ancestors(tx, tenant_id, list(by_id)):
        by_id[ancestor.merge_id].ancestors.append(ancestor)
    return list(by_id.values())
