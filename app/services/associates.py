"""Gains along links: use of a memory strengthens those linked to it, where its model of forgetting has such a gain.

Rows are locked in id order, so what a use reaches is asked before its rows are locked, and strengthened after the
use, in the same transaction: `reached`, lock all, bring all to the era, use, `strengthen`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

import numpy as np

from app.domain.dynamics.state import Event
from app.domain.dynamics.timeline import Era
from app.store import database, events, links, states
from app.store.events import Change
from app.store.states import Held

Reached = Mapping[UUID, Sequence[UUID]]
"""Memories, each with those of which a use strengthens it."""


def reached(tx: database.Transaction, tenant_id: UUID, era: Era, memory_ids: Sequence[UUID]) -> Reached:
    """What use of these memories strengthens along links, one hop in either direction.

    Along links of weight 0 nothing spreads. Nothing is looked up where the era's model has no such gain.
    """
    along: dict[UUID, list[UUID]] = {}
    if era.dynamics.spreads:
        near = links.neighbours(tx, tenant_id, memory_ids)
        for weight, (memory_id, neighbour_id) in zip(near.weights, near.pairs(), strict=True):
            if weight > 0:
                along.setdefault(neighbour_id, []).append(memory_id)
    return along


def strengthen(
    tx: database.Transaction,
    tenant_id: UUID,
    era: Era,
    held: Held,
    along: Reached,
    *,
    used_at: Mapping[UUID, float],
    now: float,
) -> int:
    """Strengthen what was reached, each memory once, however many of those linked to it were used.

    What was used itself has gained by that. Links lead nowhere from a use that came late, or too soon to count.

    Args:
        tx: The transaction of the use.
        tenant_id: The tenant.
        era: Of `now`.
        held: Memories as the use has left them, locked, brought to the era: what was reached, and any others.
        along: What was reached.
        used_at: When memories were used, the last time, in seconds since 1970; without late uses.
        now: Seconds since 1970.

    Returns:
        How many are stabler than before.
    """
    moments = {
        memory_id: max(used_at[source] for source in sources if source in used_at)
        for memory_id, sources in along.items()
        if memory_id not in used_at and not used_at.keys().isdisjoint(sources)
    }
    places = [place for place, memory_id in enumerate(held.ids) if memory_id in moments]
    if not places:
        return 0
    before = held.only(np.array(places, np.intp))
    at = np.array([moments[memory_id] for memory_id in before.ids])
    state = era.dynamics.reinforce(before.state, Event(at=at, now=now, source="associate"))
    was, is_now = (era.dynamics.advance(each, now).stability for each in (before.state, state))
    gained = np.flatnonzero(is_now > was)
    after = replace(before, state=state).only(gained)
    # They fade slower from here on, so a bound stays one, unless it was worked out by another policy.
    due = np.where(after.versions == era.version, after.next_due_at, -np.inf)
    states.write_anchors(tx, tenant_id, after, era.version, due)
    strength = era.dynamics.strength(after.state, now)
    change = Change(at[gained], was[gained], is_now[gained], strength)
    events.add(tx, tenant_id, "associate", after.ids, change)
    return len(after)
