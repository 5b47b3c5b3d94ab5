"""What time has made of the memories that a search has found."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import numpy as np

from app.domain import importance
from app.domain.dynamics.ops import NUMPY
from app.domain.dynamics.state import DAY_SECONDS, age_at, take
from app.domain.retrieval.candidates import Candidate, Vitals
from app.services import strengths
from app.store import database, states


def of(
    tx: database.Transaction, tenant_id: UUID, found: Sequence[Candidate], as_of: datetime | None = None
) -> tuple[list[Candidate], Vitals]:
    """The candidates, without those that were deleted meanwhile, and their vitals.

    Args:
        tx: The tenant's transaction.
        tenant_id: The tenant.
        found: What was found.
        as_of: Any moment; None for now.
    """
    held = states.read(tx, tenant_id, [candidate.memory_id for candidate in found])
    times = strengths.timeline(tx, tenant_id)  # after the rows, which may be of a policy that has just come
    now = (as_of or database.now(tx)).timestamp()
    era = times.at(now)
    state = strengths.brought(held, times, now).state
    rows = {memory_id: row for row, memory_id in enumerate(held.ids)}
    left = [candidate for candidate in found if candidate.memory_id in rows]
    state = take(state, np.array([rows[candidate.memory_id] for candidate in left], np.intp))
    seen = strengths.look(era, state, now)
    recency = importance.recency(NUMPY, era.policy.importance, age_at(state, now) / DAY_SECONDS)
    retrieval = era.dynamics.advance(state, now).retrieval if era.dynamics.name == "memory_decay" else seen.strength
    return left, Vitals(seen.strength, recency, seen.importance, state.salience, retrieval)
