"""Gains along links: use of a memory strengthens those linked to it, where its model of forgetting has such a gain.

Rows are locked in id order, so what uses reach is asked before their rows are locked, and strengthened after them in
the same transaction: `reached`, lock all, bring all to the era, use, `strengthen`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from uuid import UUID

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.state import Event, Row, take
from app.domain.dynamics.timeline import Era
from app.store.core import database
from app.store.memories import events, links
from app.store.memories.events import Change
from app.store.strength.states import Held

Reached = Mapping[UUID, Sequence[UUID]]
"""Memories, each with those that a use of it strengthens; to be locked, too."""
Used = Mapping[UUID, float]
"""What one request has used, and when, the last time, in seconds since 1970."""


def reached(tx: database.Transaction, tenant_id: UUID, era: Era, memory_ids: Sequence[UUID]) -> Reached:
    """What use of these memories strengthens along links, one hop in either direction.

    Along links of weight 0 nothing spreads. Nothing is looked up where the era's model has no such gain.
    """
    along: dict[UUID, list[UUID]] = {}
    if era.dynamics.spreads:
        near = links.neighbours(tx, tenant_id, memory_ids)
        for weight, (memory_id, neighbour_id) in zip(near.weights, near.pairs(), strict=True):
            if weight > 0:
                along.setdefault(memory_id, []).append(neighbour_id)
    return along


def strengthen(
    tx: database.Transaction,
    tenant_id: UUID,
    era: Era,
    held: Held,
    along: Reached,
    *,
    used: Sequence[Used],
    now: float,
) -> tuple[Held, npt.NDArray[np.intp]]:
    """Strengthen what uses have reached: by each request once, however many linked memories it used.

    What a request used itself gains by that use alone. Requests count one by one, so that the outcome doesn't depend
    on how they came in batches. Notes it in the history; the rows are the caller's to write.

    Args:
        tx: The transaction of the uses.
        tenant_id: The tenant.
        era: Of `now`.
        held: Memories as the uses have left them, locked, brought to the era: what was reached, and any others.
        along: What was reached.
        used: By request, without the uses that came late, or too soon after another to count.
        now: Seconds since 1970.

    Returns:
        All of the memories, and the places of those that are stabler than before.
    """
    if not along:
        return held, np.empty(0, np.intp)
    rows = {memory_id: row for row, memory_id in enumerate(held.ids)}
    columns = {field.name: np.array(getattr(held.state, field.name), np.float64) for field in fields(Row)}
    state = Row(**columns)
    gains = []
    for moments in (_moments(along, request) for request in used):
        there = np.array([rows[memory_id] for memory_id in moments if memory_id in rows], np.intp)
        at = np.array([moments[held.ids[row]] for row in there])
        before = take(state, there)
        after = era.dynamics.reinforce(before, Event(at=at, now=now, source="associate"))
        was, is_now = (era.dynamics.advance(each, now).stability for each in (before, after))
        for name, column in columns.items():
            column[there] = getattr(after, name)
        gains.append(np.array([there, at, was, is_now])[:, is_now > was])
    [rows_told, at, was, is_now] = np.concatenate([np.empty((4, 0)), *gains], axis=1)
    places = rows_told.astype(np.intp)
    strengthened = replace(held, state=state)
    told = strengthened.only(places)
    strength = era.dynamics.strength(told.state, now)
    events.add(tx, tenant_id, "associate", told.ids, Change(at, was, is_now, strength))
    return strengthened, np.unique(places)


def _moments(along: Reached, request: Used) -> Used:
    """When a request has used something linked, the last time, for each memory that it hasn't used itself."""
    moments: dict[UUID, float] = {}
    for memory_id, at in request.items():
        for neighbour_id in along.get(memory_id, ()):
            if neighbour_id not in request:
                moments[neighbour_id] = max(at, moments.get(neighbour_id, at))
    return moments
