"""Compute the vitals of search candidates: strength, recency, importance, salience and retrieval as of any time."""

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
from app.domain.search.candidate_types import CandidateStrength
from app.domain.strength import importance
from app.domain.strength.importance import Importance
from app.errors import ProfileMissing
from app.services.strength import memory_strength
from app.store.core import database
from app.store.search import search_context
from app.store.search.search_context import SearchContext
from app.store.strength import states
from app.store.strength.states import StoredStates

log = structlog.get_logger(__name__)

UNSCORED: Final = 0.5
"""Salience assumed for a memory without a score: the salience of a normal memory (cmm)."""


def candidate_strengths(
    tx: database.Transaction, tenant_id: UUID, memory_ids: Sequence[UUID], as_of: datetime | None = None
) -> tuple[list[int], CandidateStrength]:
    """Return the indices of the memories that still exist, and the vitals of these memories in the same order.

    If the tenant's forgetting model isn't installed, every strength counts as 1, so that searching remains possible.

    Args:
        memory_ids: Unique ids.
        as_of: Any time; None for now. For a time before a memory's anchor (the last change of the values from which
            strength is computed), the memory's vitals are computed as of its anchor.
    """
    stored = states.read(tx, tenant_id, memory_ids)
    # Read after the states, which may refer to a policy that was just added.
    around = search_context.read(tx, tenant_id)
    rows = {memory_id: row for row, memory_id in enumerate(stored.ids)}
    found_rows = [rows.get(memory_id, -1) for memory_id in memory_ids]
    places = [place for place, row in enumerate(found_rows) if row >= 0]
    stored = stored.only(np.array([found_rows[place] for place in places], np.intp))
    return places, strengths_of_states(tenant_id, stored, around, as_of)


def strengths_of_states(
    tenant_id: UUID, held: StoredStates, around: SearchContext, as_of: datetime | None = None
) -> CandidateStrength:
    """Compute the vitals of memories from their states and a search context that was read after the states."""
    times = memory_strength.build_timeline(around.policies)
    now = around.now if as_of is None else as_of.timestamp()
    try:
        return _alive(held, times, now) if as_of is None else _as_of(held, times, now)
    except ProfileMissing:
        log.warning("strength_unknown", tenant=str(tenant_id))
        return compute_vitals(held, times.at(now).policy.importance, None, now)


def _alive(held: StoredStates, times: Timeline, now: float) -> CandidateStrength:
    era = times.at(now)
    return compute_vitals(memory_strength.advance_to_era(held, times, now), era.policy.importance, era.dynamics, now)


def _as_of(held: StoredStates, times: Timeline, now: float) -> CandidateStrength:
    """Compute each memory's vitals as of `now`, or of its anchor if later, under the policy in force at that time."""
    # A memory that has decayed for very long may have an anchor before its policy took effect.
    moments = np.maximum(np.maximum(held.state.anchored_at, times.since(held.versions)), now)
    columns = {field.name: np.empty(len(held)) for field in fields(CandidateStrength)}
    in_eras = np.searchsorted([era.since for era in times.eras], moments, side="right") - 1
    for era_index in np.unique(in_eras).tolist():
        part, era = np.flatnonzero(in_eras == era_index), times.eras[era_index]
        converted = memory_strength.advance_to_era(held.only(part), times, float(moments[part[0]]))
        vitals = compute_vitals(converted, era.policy.importance, era.dynamics, moments[part])
        for name, column in columns.items():
            column[part] = getattr(vitals, name)
    return CandidateStrength(**columns)


def compute_vitals(
    held: StoredStates, weighing: Importance, dynamics: Dynamics | None, now: Floats | float
) -> CandidateStrength:
    """Compute the vitals of memories whose states are already converted to this forgetting model.

    Args:
        weighing: The policy's parameters of recency and importance.
        dynamics: The policy's forgetting model; None if it isn't installed, which makes every strength 1.
        now: One time for all memories or one for each, in seconds since 1970.
    """
    state = held.state
    strength = dynamics.strength(state, now) if dynamics else np.ones(len(held))
    return CandidateStrength(
        strength,
        importance.recency(NUMPY, weighing, age_at(state, now) / DAY_SECONDS),
        importance.importance(weighing, state, now),
        np.where(held.is_scored, state.salience, UNSCORED),
        dynamics.retrieval(state, now) if isinstance(dynamics, MemoryDecay) else strength,
    )
