"""Create, list and delete links between memories. All functions accept aliases of memory ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from app.domain.strength.links import LINKS_A_MEMORY, MissingLink, NewLink
from app.errors import FieldError, Invalid
from app.services.storage import lookup
from app.store.core import database
from app.store.core.paging import Page
from app.store.memories import links, missing_links
from app.store.memories.links import Link, LinkFilter, LinkKey


class LinkCounts(NamedTuple):
    """The numbers of links created, and of links whose weight changed."""

    added: int
    updated: int


def add(tenant_id: UUID, given: Sequence[NewLink]) -> LinkCounts:
    """Create links, all or none; an existing link gets the new weight.

    Raises:
        NotFound: This tenant has no such memory.
        Unavailable: A memory is still in the ingest queue.
        Invalid: A link connects a memory to itself, or a memory would have more than `LINKS_A_MEMORY` links.
    """
    ends = [end for link in given for end in (link.from_id, link.to_id)]
    with database.tenant(tenant_id) as tx:
        stored = links.lock_ends(tx, tenant_id, ends)
        missing = next((place for place, end in enumerate(ends) if end not in stored), None)
        if missing is None:
            weights = _weights(given, stored)
            added, updated = links.upsert_links(tx, tenant_id, weights)
            fullest, link_count = links.most_linked(tx, tenant_id, list(stored.values()))
            if link_count > LINKS_A_MEMORY:
                place = [stored[end] for end in ends].index(fullest)
                raise Invalid(
                    errors=[FieldError(_field(given, place), "has too many links", link_count, LINKS_A_MEMORY)]
                )
            return LinkCounts(len(added), updated)
    # Query the queue only now that the transaction has ended.
    raise lookup.explain_missing(tenant_id, _field(given, missing), str(ends[missing]), "to be linked")


def list_links(tenant_id: UUID, wanted: LinkFilter, after: LinkKey | None, limit: int) -> Page[Link]:
    """Return a page of links, ordered by key, starting after the key `after`.

    Raises:
        NotFound: This tenant has no such memory.
    """
    resolved = _resolve_filter(tenant_id, wanted)
    with database.tenant(tenant_id) as tx:
        return links.list_links(tx, tenant_id, resolved, after, limit)


def list_missing(tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[MissingLink]:
    """Return the links that were submitted with these memories but don't exist, under the memories' stored ids.

    Args:
        memory_ids: Any ids returned for the memories, aliases included.
    """
    with database.tenant(tenant_id) as tx:
        stored = links.resolve_ids(tx, tenant_id, memory_ids)
        return missing_links.list_of(tx, tenant_id, sorted(set(stored.values())))


def remove(tenant_id: UUID, wanted: LinkFilter, *, both_ways: bool = False) -> int:
    """Delete links, and with `both_ways` also their reverse links; return the number of deleted links.

    Raises:
        NotFound: This tenant has no such memory.
    """
    resolved = _resolve_filter(tenant_id, wanted)
    with database.tenant(tenant_id) as tx:
        removed = links.remove(tx, tenant_id, resolved)
        if both_ways:
            removed += links.remove(tx, tenant_id, replace(resolved, from_id=resolved.to_id, to_id=resolved.from_id))
        return removed


def _resolve_filter(tenant_id: UUID, wanted: LinkFilter) -> LinkFilter:
    """Replace aliases in the filter with the ids under which the memories are stored."""

    def stored_id(end: UUID | None) -> UUID | None:
        return None if end is None else lookup.get(tenant_id, end).memory_id

    return replace(
        wanted, memory_id=stored_id(wanted.memory_id), from_id=stored_id(wanted.from_id), to_id=stored_id(wanted.to_id)
    )


def _weights(given: Sequence[NewLink], stored: Mapping[UUID, UUID]) -> dict[LinkKey, float]:
    """Return the weight of each link; of duplicate links, the last determines the weight."""
    weights: dict[LinkKey, float] = {}
    for place, link in enumerate(given):
        from_id, to_id = stored[link.from_id], stored[link.to_id]
        if from_id == to_id:
            raise Invalid(errors=[FieldError(_field(given, 2 * place + 1), "must differ from the memory in `from`")])
        weights[LinkKey(from_id, to_id, link.kind)] = link.weight
        if link.both_ways:
            weights[LinkKey(to_id, from_id, link.kind)] = link.weight
    return weights


def _field(given: Sequence[NewLink], place: int) -> str:
    """Return the name of the request field with a link's end.

    Args:
        given: The links in the request body, which is a single link or a list.
        place: Index of the end among all ends: 2 × the link's index, plus 1 for the `to` end.
    """
    name = ("from", "to")[place % 2]
    return name if len(given) == 1 else f"[{place // 2}].{name}"
