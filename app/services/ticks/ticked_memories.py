"""Search, show and delete memories in memory-decay's terms."""

from __future__ import annotations

import uuid
from typing import Final, NamedTuple
from uuid import UUID

from app.domain.ingest.roles import Role
from app.domain.ingest.uses import Touches, Use, session_digest
from app.domain.privacy.legal_hold import IDS_MAX
from app.domain.search.request import SearchRequest
from app.errors import NotFound, Unavailable
from app.services.erasure import deletion_of_many
from app.services.memories import memories
from app.services.search import search
from app.services.ticks import decay_ticks
from app.services.ticks.decay_ticks import HistoryPoint
from app.services.uses import reinforcement
from app.store.core import database
from app.store.ticks import decay_clocks, ticked_memories
from app.store.ticks.decay_clocks import DecayClock, TickAverages
from app.store.ticks.ticked_memories import CategorySummary, MemorySummary, TickedMemory

RECALLED_ABOVE: Final = 0.3
"""Score above which the best result of a search counts as used."""
_ANY_ROLE: Final[tuple[Role | None, ...]] = ("user", "assistant", "system", "tool", None)


class FoundMemory(NamedTuple):
    """A result of a search: the memory before the search's own effect, and its score."""

    memory: TickedMemory
    score: float


class Listing(NamedTuple):
    """A page of memories, and the number of all that match."""

    memories: list[TickedMemory]
    total: int


class Overview(NamedTuple):
    """Summary of all memories, of each category, and of the newest ticks."""

    total: MemorySummary
    categories: list[CategorySummary]
    timeline: list[TickAverages]


def find_memories(tenant_id: UUID, query: str, limit: int, clock: DecayClock) -> list[FoundMemory]:
    """Return the best results, best first; the first one counts as used if its score exceeds `RECALLED_ABOVE`.

    Archived memories are found as well. Memories that were submitted for a later tick aren't found.
    """
    request = SearchRequest(
        query=query,
        limit=limit,
        mode="memory_decay",
        tiers=("active", "archived"),
        roles=_ANY_ROLE,
        superseded=True,
        reinforce=False,
    )
    results = search.search(tenant_id, request)
    with database.tenant(tenant_id) as tx:
        rows = ticked_memories.read(tx, tenant_id, [result.id for result in results])
    found = [
        FoundMemory(rows[result.id], result.score)
        for result in results
        if result.id in rows and rows[result.id].created_tick <= clock.tick
    ]
    if found and found[0].score > RECALLED_ABOVE:
        _use(tenant_id, found[0].memory.memory_id)
    if found:
        decay_ticks.record_activation(tenant_id, [each.memory.memory_id for each in found])
    return found


def _use(tenant_id: UUID, memory_id: UUID) -> None:
    """Count a use; each search is a session of its own, so that no refractory period applies."""
    session = session_digest(tenant_id, uuid.uuid4().hex)
    try:
        reinforcement.touch_memory(tenant_id, memory_id, Touches([Use(memory_id)], session, by_search=True))
    except (NotFound, Unavailable):  # deleted since the search
        return


def get(tenant_id: UUID, memory_id: UUID) -> TickedMemory:
    """Return a memory.

    Raises:
        NotFound: This tenant has no such memory.
    """
    with database.tenant(tenant_id) as tx:
        found = ticked_memories.read(tx, tenant_id, [memory_id])
    if memory_id not in found:
        raise NotFound("Memory not found")
    return found[memory_id]


def list_history(tenant_id: UUID, memory_id: UUID, first: int | None, last: int | None) -> list[HistoryPoint]:
    """Return the activation of a memory at the newest ticks, optionally only from `first` and up to `last`.

    Raises:
        NotFound: This tenant has no such memory.
    """
    get(tenant_id, memory_id)
    return decay_ticks.list_history(tenant_id, memory_id, first, last)


def list_memories(tenant_id: UUID, category: str | None, mtype: str | None, offset: int, limit: int) -> Listing:
    """Return a page of memories, those of the latest tick first."""
    with database.tenant(tenant_id) as tx:
        page = ticked_memories.list_page(tx, tenant_id, category, mtype, offset, limit)
        return Listing(page, ticked_memories.count(tx, tenant_id, category, mtype))


def count(tenant_id: UUID) -> int:
    """Return the number of memories."""
    with database.tenant(tenant_id) as tx:
        return ticked_memories.count(tx, tenant_id)


def summarise(tenant_id: UUID) -> Overview:
    """Return the summary of the memories and of the newest ticks."""
    with database.tenant(tenant_id) as tx:
        total, categories = ticked_memories.summarise(tx, tenant_id)
        return Overview(total, categories, decay_clocks.list_averages(tx, tenant_id))


def delete(tenant_id: UUID, memory_id: UUID, actor: str) -> None:
    """Hide a memory, to be erased after the grace period.

    Raises:
        NotFound: This tenant has no such memory.
        Unavailable: The memory is still in the ingest queue.
        Conflict: The memory is under a legal hold.
    """
    get(tenant_id, memory_id)  # raises NotFound if the memory was already deleted
    memories.delete(tenant_id, memory_id, actor)


def delete_all(tenant_id: UUID, actor: str) -> int:
    """Hide all memories, to be erased after the grace period, and set the clock to tick 0; return their number.

    Raises:
        Conflict: A memory is under a legal hold; nothing changes.
    """
    return deletion_of_many.delete_listed(
        tenant_id,
        actor,
        lambda tx, after: ticked_memories.list_stored(tx, tenant_id, after, IDS_MAX),
        lambda tx: decay_ticks.reset_clock(tx, tenant_id),
    )
