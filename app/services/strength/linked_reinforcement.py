"""Strengthen memories linked to a used memory, if the forgetting model provides for it.

Rows are locked in id order. Therefore the linked memories are looked up before locking, and strengthened after the used
memories in the same transaction: call `list_reached`, lock all rows, advance them to the era, apply the uses, call
`strengthen_linked`.
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
"""The linked memories that a use of each memory strengthens; their rows must be locked as well."""
Used = Mapping[UUID, float]
"""The memories that one request used, with the time of the last use in seconds since 1970."""


def list_reached(tx: database.Transaction, tenant_id: UUID, era: Era, memory_ids: Sequence[UUID]) -> Reached:
    """Return the memories that uses of these memories strengthen, one hop along links in either direction.

    Links of weight 0 are ignored. If the era's model doesn't strengthen linked memories, return an empty mapping
    without a query.
    """
    reached: dict[UUID, list[UUID]] = {}
    if era.dynamics.spreads:
        neighbours = links.list_neighbours(tx, tenant_id, memory_ids)
        for weight, (memory_id, neighbour_id) in zip(neighbours.weights, neighbours.pairs(), strict=True):
            if weight > 0:
                reached.setdefault(memory_id, []).append(neighbour_id)
    return reached


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
    """Strengthen linked memories once per request, even if the request used several memories linked to the same one.

    A memory that the request used itself isn't strengthened again. Requests are applied one by one, so that the outcome
    doesn't depend on batching. The gains are added to the history; the caller writes the rows.

    Args:
        tx: The transaction of the uses.
        era: The era at `now`.
        held: States after the uses, locked and advanced to the era: the reached memories, and possibly others.
        along: The result of `list_reached`.
        used: The uses of each request, without uses that were reported late or fell within the refractory time.
        now: Seconds since 1970.

    Returns:
        The states of all memories in `held`, and the indices of the memories whose stability has increased.
    """
    if not along:
        return held, np.empty(0, np.intp)
    rows = {memory_id: row for row, memory_id in enumerate(held.ids)}
    columns = {field.name: np.array(getattr(held.state, field.name), np.float64) for field in fields(Row)}
    state = Row(**columns)
    gains = []
    for moments in (_moments(along, request) for request in used):
        linked_rows = np.array([rows[memory_id] for memory_id in moments if memory_id in rows], np.intp)
        at = np.array([moments[held.ids[row]] for row in linked_rows])
        before = take(state, linked_rows)
        after = era.dynamics.reinforce(before, Event(at=at, now=now, source="associate"))
        old_stability, new_stability = (era.dynamics.advance(each, now).stability for each in (before, after))
        for name, column in columns.items():
            column[linked_rows] = getattr(after, name)
        gains.append(np.array([linked_rows, at, old_stability, new_stability])[:, new_stability > old_stability])
    [gain_rows, at, old_stability, new_stability] = np.concatenate([np.empty((4, 0)), *gains], axis=1)
    strengthened_rows = gain_rows.astype(np.intp)
    strengthened = replace(held, state=state)
    gained = strengthened.only(strengthened_rows)
    strength = era.dynamics.strength(gained.state, now)
    history.add(tx, tenant_id, "associate", gained.ids, EventChange(at, old_stability, new_stability, strength))
    return strengthened, np.unique(strengthened_rows)


def _moments(along: Reached, request: Used) -> Used:
    """Return the linked memories that the request didn't use itself, each with the last use that reaches it."""
    moments: dict[UUID, float] = {}
    for memory_id, at in request.items():
        for neighbour_id in along.get(memory_id, ()):
            if neighbour_id not in request:
                moments[neighbour_id] = max(at, moments.get(neighbour_id, at))
    return moments
