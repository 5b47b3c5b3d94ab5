"""Strengthen memories linked to a used one, if the forgetting model has such a gain.

Rows are locked in id order. So the linked memories are looked up before locking, and strengthened after the used ones
in the same transaction: `list_reached`, lock all rows, bring them to the era, apply the uses, `strengthen_linked`.
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
from app.store.memories import history, links
from app.store.memories.history import EventChange
from app.store.strength.states import StoredStates

Reached = Mapping[UUID, Sequence[UUID]]
"""By memory, the linked memories that its use strengthens; their rows must be locked, too."""
Used = Mapping[UUID, float]
"""The memories that one request used, with the time of the last use in seconds since 1970."""


def list_reached(tx: database.Transaction, tenant_id: UUID, era: Era, memory_ids: Sequence[UUID]) -> Reached:
    """Return the memories that use of these memories strengthens, one hop along links in either direction.

    Links of weight 0 are ignored. Returns nothing, without a query, if the era's model has no such gain.
    """
    along: dict[UUID, list[UUID]] = {}
    if era.dynamics.spreads:
        near = links.list_neighbours(tx, tenant_id, memory_ids)
        for weight, (memory_id, neighbour_id) in zip(near.weights, near.pairs(), strict=True):
            if weight > 0:
                along.setdefault(memory_id, []).append(neighbour_id)
    return along


def strengthen_linked(
    tx: database.Transaction,
    tenant_id: UUID,
    era: Era,
    held: StoredStates,
    along: Reached,
    *,
    used: Sequence[Used],
    now: float,
) -> tuple[StoredStates, npt.NDArray[np.intp]]:
    """Strengthen linked memories: once per request, however many of their linked memories it used.

    A memory that a request used itself gains from that use only. Requests are applied one by one, so that the outcome
    doesn't depend on batching. The gains are added to the history; the caller writes the rows.

    Args:
        tx: The transaction of the uses.
        era: The era at `now`.
        held: Memories after the uses, locked and brought to the era: those reached, and possibly others.
        along: The memories reached.
        used: By request, excluding uses that were reported late or fell within the refractory time.
        now: Seconds since 1970.

    Returns:
        All of the memories, and the indices of those whose stability has increased.
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
    history.add(tx, tenant_id, "associate", told.ids, EventChange(at, was, is_now, strength))
    return strengthened, np.unique(places)


def _moments(along: Reached, request: Used) -> Used:
    """Return, for each linked memory that the request didn't use itself, when a memory linked to it was last used."""
    moments: dict[UUID, float] = {}
    for memory_id, at in request.items():
        for neighbour_id in along.get(memory_id, ()):
            if neighbour_id not in request:
                moments[neighbour_id] = max(at, moments.get(neighbour_id, at))
    return moments
