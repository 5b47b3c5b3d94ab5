"""Create, list and delete links between memories; aliases of a memory's id are accepted everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from app.domain.strength.links import LINKS_A_MEMORY, NewLink
from app.errors import FieldError, Invalid
from app.services.storage import lookup
from app.store.core import database
from app.store.core.paging import Page
from app.store.memories import links
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
            added = LinkCounts(*links.upsert_links(tx, tenant_id, weights))
            fullest, held = links.most_linked(tx, tenant_id, list(stored.values()))
            if held > LINKS_A_MEMORY:
                place = [stored[end] for end in ends].index(fullest)
                raise Invalid(errors=[FieldError(_field(given, place), "has too many links", held, LINKS_A_MEMORY)])
            return added
    # The transaction has ended: the queue must not be queried within one.
    raise lookup.explain_missing(tenant_id, _field(given, missing), str(ends[missing]), "to be linked")


def list_links(tenant_id: UUID, wanted: LinkFilter, after: LinkKey | None, limit: int) -> Page[Link]:
    """List links in the order of their keys, starting after `after`.

    Raises:
        NotFound: This tenant has no such memory.
    """
    meant = _resolve_filter(tenant_id, wanted)
    with database.tenant(tenant_id) as tx:
        return links.list_links(tx, tenant_id, meant, after, limit)


def remove(tenant_id: UUID, wanted: LinkFilter, *, both_ways: bool = False) -> int:
    """Delete links, and the reverse links with `both_ways`; return the number deleted.

    Raises:
        NotFound: This tenant has no such memory.
    """
    meant = _resolve_filter(tenant_id, wanted)
    with database.tenant(tenant_id) as tx:
        removed = links.remove(tx, tenant_id, meant)
        if both_ways:
            removed += links.remove(tx, tenant_id, replace(meant, from_id=meant.to_id, to_id=meant.from_id))
        return removed


def _resolve_filter(tenant_id: UUID, wanted: LinkFilter) -> LinkFilter:
    """Replace ids in the filter with those under which the memories are stored; queued memories have no links yet."""

    def kept(end: UUID | None) -> UUID | None:
        return None if end is None else lookup.get(tenant_id, end).memory_id

    return replace(wanted, memory_id=kept(wanted.memory_id), from_id=kept(wanted.from_id), to_id=kept(wanted.to_id))


def _weights(given: Sequence[NewLink], stored: Mapping[UUID, UUID]) -> dict[LinkKey, float]:
    """Return the weight of each link; the last of duplicate links wins."""
    weights: dict[LinkKey, float] = {}
    for place, link in enumerate(given):
        from_id, to_id = stored[link.from_id], stored[link.to_id]
        if from_id == to_id:
            raise Invalid(errors=[FieldError(_field(given, 2 * place + 1), "is the memory that the link leads from")])
        weights[LinkKey(from_id, to_id, link.kind)] = link.weight
        if link.both_ways:
            weights[LinkKey(to_id, from_id, link.kind)] = link.weight
    return weights


def _field(given: Sequence[NewLink], place: int) -> str:
    """Return the request field of a link's end; the body is one link or a list, and ends are numbered throughout."""
    name = ("from", "to")[place % 2]
    return name if len(given) == 1 else f"[{place // 2}].{name}"
