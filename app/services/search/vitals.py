"""What time has made of the memories that a search has found, as of any moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Final
from uuid import UUID

import numpy as np
import structlog

from app.domain.dynamics.memory_decay import MemoryDecay
from app.domain.dynamics.ops import NUMPY, Floats
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import DAY_SECONDS, age_at
from app.domain.dynamics.timeline import Timeline
from app.domain.search.candidates import Vitals
from app.domain.strength import importance
from app.domain.strength.importance import Importance
from app.errors import ProfileMissing
from app.services.strength import strengths
from app.store.core import database
from app.store.search import circumstances
from app.store.search.circumstances import Circumstances
from app.store.strength import states
from app.store.strength.states import Held

log = structlog.get_logger(__name__)

UNSCORED: Final = 0.5
"""Salience of a memory that nobody has scored yet: that of a normal one (cmm)."""


def of(
    tx: database.Transaction, tenant_id: UUID, memory_ids: Sequence[UUID], as_of: datetime | None = None
) -> tuple[list[int], Vitals]:
    """Vitals of memories, and the places of those that have any, in their order: the deleted ones are left out.

    Args:
        tx: The tenant's transaction.
        tenant_id: The tenant.
        memory_ids: Each once.
        as_of: Any moment; None for now. Before its anchor, the last change of what strength is worked out from, a
            memory is as it was there.

    Where the tenant's model of forgetting isn't installed here, every strength counts as 1: a search is possible
    all the same.
    """
    held = states.read(tx, tenant_id, memory_ids)
    around = circumstances.read(tx, tenant_id)  # after the rows, which may be of a policy that has just come
    rows = {memory_id: row for row, memory_id in enumerate(held.ids)}
    there = [rows.get(memory_id, -1) for memory_id in memory_ids]
    places = [place for place, row in enumerate(there) if row >= 0]
    held = held.only(np.array([there[place] for place in places], np.intp))
    return places, seen(tenant_id, held, around, as_of)


def seen(tenant_id: UUID, held: Held, around: Circumstances, as_of: datetime | None = None) -> Vitals:
    """The same of memories whose rows were read, and the tenant's circumstances after them."""
    times = strengths.timeline_of(around.policies)
    now = around.now if as_of is None else as_of.timestamp()
    try:
        return _alive(held, times, now) if as_of is None else _as_of(held, times, now)
    except ProfileMissing:
        log.warning("strength_unknown", tenant=str(tenant_id))
        return measured(held, times.at(now).policy.importance, None, now)


def _alive(held: Held, times: Timeline, now: float) -> Vitals:
    era = times.at(now)
    return measured(strengths.brought(held, times, now), era.policy.importance, era.dynamics, now)


def _as_of(held: Held, times: Timeline, now: float) -> Vitals:
    """The same of any moment: each memory at its own, in the era of that."""
    # One that fades from long ago may be anchored before its policy came.
    moments = np.maximum(np.maximum(held.state.anchored_at, times.since(held.versions)), now)
    columns = {field.name: np.empty(len(held)) for field in fields(Vitals)}
    in_eras = np.searchsorted([era.since for era in times.eras], moments, side="right") - 1
    for era_place in np.unique(in_eras).tolist():
        part, era = np.flatnonzero(in_eras == era_place), times.eras[era_place]
        brought = strengths.brought(held.only(part), times, float(moments[part[0]]))
        seen = measured(brought, era.policy.importance, era.dynamics, moments[part])
        for name, column in columns.items():
            column[part] = getattr(seen, name)
    return Vitals(**columns)


def measured(held: Held, weighing: Importance, dynamics: Dynamics | None, now: Floats | float) -> Vitals:
    """Return the vitals of memories whose states are of this model at these moments; without a model all are as strong.

    Args:
        held: The memories.
        weighing: The policy's weights of importance.
        dynamics: The policy's model of forgetting; None where it isn't installed.
        now: Seconds since 1970.
    """
    state = held.state
    strength = dynamics.strength(state, now) if dynamics else np.ones(len(held))
    return Vitals(
        strength,
        importance.recency(NUMPY, weighing, age_at(state, now) / DAY_SECONDS),
        importance.importance(weighing, state, now),
        np.where(held.is_scored, state.salience, UNSCORED),
        dynamics.retrieval(state, now) if isinstance(dynamics, MemoryDecay) else strength,
    )
