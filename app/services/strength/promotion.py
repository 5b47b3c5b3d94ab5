"""Flag memories that meet the forgetting model's conditions for permanent retention."""

from __future__ import annotations

from uuid import UUID

import numpy as np

from app.domain.dynamics.timeline import Era
from app.domain.strength.promotion import REASONS, promotion_reasons
from app.store.core import database
from app.store.memories import history
from app.store.memories.history import EventChange
from app.store.strength import promotion
from app.store.strength.states import StoredStates


def flag_promoted(tx: database.Transaction, tenant_id: UUID, held: StoredStates, era: Era, now: float) -> list[UUID]:
    """Flag newly promoted memories, and add the reason to their history. A flag is never removed.

    Args:
        tx: The tenant's transaction, which has locked the rows.
        held: States after the use or review, advanced to the era.
        era: The era whose forgetting model applies.
        now: Seconds since 1970.

    Returns:
        The ids of the newly flagged memories.
    """
    reasons = promotion_reasons(era.dynamics, held.state, now)
    rows = {held.ids[row]: row for row in np.flatnonzero(reasons != "").tolist()}
    reason_by_id = {memory_id: str(reasons[row]) for memory_id, row in rows.items()}
    flagged = promotion.set_flags(tx, tenant_id, reason_by_id, now)
    if flagged:
        reason_codes = [REASONS.index(reason_by_id[memory_id]) for memory_id in flagged]
        strength = era.dynamics.strength(held.state, now)[[rows[memory_id] for memory_id in flagged]]
        history.add(tx, tenant_id, "promoted", flagged, EventChange(now, reason_codes, reason_codes, strength))
    return flagged
