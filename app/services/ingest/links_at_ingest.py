"""Add the links that callers submit with a memory; links that can't be added are stored with the reason.

A target may be named by an id or an external id, and may be in the same batch. If no memory has that external id yet,
the link is added when one arrives. An id is assigned at acceptance, so a memory named by its id is stored already,
unless it was refused or erased.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from app.domain.strength.links import LINKS_A_MEMORY, MissingLink, Unlinked, select_excess
from app.store.consolidation import supersessions
from app.store.core import database
from app.store.memories import links, missing_links
from app.store.memories.links import LinkKey
from app.store.memories.memories import NewMemory


def lock_targets(
    tx: database.Transaction, tenant_id: UUID, given: Sequence[NewMemory], external_ids: Sequence[str]
) -> set[UUID]:
    """Lock the targets of these memories' links, and the memories with these external ids; without links, lock nothing.

    Call this before other rows of `memories` are locked.

    Args:
        external_ids: External ids of memories that the transaction updates afterwards; they are locked here, too.

    Returns:
        The ids of the locked memories.
    """
    names = {link.to for row in given for link in row.given.links}
    if not names:
        return set()
    ends = supersessions.resolve_names(tx, tenant_id, names)
    return links.lock_targets(tx, tenant_id, {end.memory_id for end in ends.values()}, external_ids)


def add_links(
    tx: database.Transaction,
    tenant_id: UUID,
    given: Sequence[NewMemory],
    stored_ids: Sequence[UUID],
    targets: Collection[UUID],
) -> None:
    """Add the links of memories that were just written, and links of earlier memories that waited for them.

    Of links with the same source, target and kind, the last one determines the weight. No error is raised, since the
    memories were already accepted: `missing_links` has the links that couldn't be added.

    Args:
        given: The memories as submitted, in order of acceptance.
        stored_ids: Id under which each of them is stored.
        targets: Stored memories that the transaction has locked or written; others count as missing.
    """
    stated = {
        (stored_id, link.to, link.kind): link.weight
        for row, stored_id in zip(given, stored_ids, strict=True)
        for link in row.given.links
    }
    arrived = {row.given.external_id for row in given if row.given.external_id is not None}
    if not stated and not arrived:
        return
    waiting = missing_links.claim(tx, tenant_id, arrived, stated.keys())
    wanted = {link[:3]: link.weight for link in waiting} | stated
    if not wanted:
        return
    resolved = supersessions.resolve_names(tx, tenant_id, {name for _, name, _ in wanted})
    refused: dict[tuple[UUID, str, str], Unlinked] = {}
    sources: dict[LinkKey, tuple[UUID, str, str]] = {}
    for source in wanted:
        memory_id, name, kind = source
        target = resolved.get(name)
        if target is None or target.memory_id not in targets:
            refused[source] = "missing"
        elif target.memory_id == memory_id:
            refused[source] = "itself"
        else:
            sources[LinkKey(memory_id, target.memory_id, kind)] = source
    for key in upsert_within_limit(tx, tenant_id, {key: wanted[source] for key, source in sources.items()}):
        refused[sources[key]] = "full"
    missing_links.insert(
        tx, tenant_id, [MissingLink(*source, wanted[source], reason) for source, reason in refused.items()]
    )


def upsert_within_limit(tx: database.Transaction, tenant_id: UUID, weights: dict[LinkKey, float]) -> list[LinkKey]:
    """Insert or update links; return the links that weren't inserted because a memory has too many."""
    if not weights:
        return []
    added, _ = links.upsert_links(tx, tenant_id, weights)
    ends = [(key.memory_id, key.other_id) for key in added]
    if not ends:
        return []
    full = links.count_above(tx, tenant_id, sorted({end for pair in ends for end in pair}), LINKS_A_MEMORY)
    excess = [added[place] for place in select_excess(ends, full, LINKS_A_MEMORY)]
    if excess:
        links.delete_links(tx, tenant_id, excess)
    return excess
