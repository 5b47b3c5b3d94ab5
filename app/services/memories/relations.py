"""Collect a memory's relations: its sources and summaries, supersessions, corrections and links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple
from uuid import UUID

from app.store.consolidation import merged_memories, merges, supersessions
from app.store.consolidation.merged_memories import SUMMARISES, SUPPORTS
from app.store.core import database
from app.store.enrichment import corrections
from app.store.memories import links
from app.store.memories.links import LinkFilter

STEPS: Final = 2
"""Number of generations followed in both directions: a summary's sources can themselves be summaries."""
KIN_MAX: Final = 60
LINKS_MAX: Final = 20

Way = Literal["summary", "kept", "superseded", "corrected", "link"]


class Relation(NamedTuple):
    """A relation from a memory to a later one, such as its summary or the memory that superseded it.

    Attributes:
        way: The type of relation. `kept` means that the memory was left beside the summary; `link` is a link from one
            memory to the other; `corrected` is stored as a link from the later memory.
        kind: The kind of a link, chosen by the caller; empty for other types.
    """

    from_id: UUID
    to_id: UUID
    way: Way
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Relations:
    """The relations around a memory.

    Attributes:
        ties: Relations between existing memories, without duplicates.
        texts: The memories' texts by id.
        tiers: The memories' tiers by id.
    """

    ties: list[Relation]
    texts: dict[UUID, str]
    tiers: dict[UUID, str]


def find_ties(tenant_id: UUID, memory_id: UUID) -> Relations:
    """Return the relations around a memory, given the id under which it is stored."""
    with database.tenant(tenant_id) as tx:
        ties: dict[Relation, None] = {}
        visited, frontier = {memory_id}, {memory_id}
        for _ in range(STEPS):
            relatives = merges.list_kin(tx, tenant_id, sorted(frontier), KIN_MAX) if frontier else []
            ties |= {Relation(kin.memory_id, kin.summary_id, _relation_kind(kin.part)): None for kin in relatives}
            frontier = {end for kin in relatives for end in (kin.summary_id, kin.memory_id)} - visited
            visited |= frontier
        around = supersessions.list_around(tx, tenant_id, [memory_id]).get(memory_id)
        if around is not None:
            ties |= {Relation(older, memory_id, "superseded"): None for older in around.supersedes}
            ties |= {Relation(memory_id, newer, "superseded"): None for newer in around.superseded_by}
        for link in links.list_links(tx, tenant_id, LinkFilter(memory_id), None, LINKS_MAX):
            if link.kind == corrections.KIND:
                ties[Relation(link.other_id, link.memory_id, "corrected")] = None
            elif link.kind not in (SUMMARISES, SUPPORTS):
                ties[Relation(link.memory_id, link.other_id, "link", link.kind)] = None
        ends = {end for tie in ties for end in (tie.from_id, tie.to_id)}
        present = merged_memories.list_present(tx, tenant_id, sorted(ends))
    texts = {memory.memory_id: memory.text for memory in present}
    existing_ties = [tie for tie in ties if tie.from_id in texts and tie.to_id in texts]
    return Relations(existing_ties, texts, {memory.memory_id: memory.tier for memory in present})


def _relation_kind(part: merges.Part) -> Way:
    return "kept" if part == "kept" else "summary"
