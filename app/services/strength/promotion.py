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
from app.store.strength.promotion import NewFlag
from app.store.strength.states import StoredStates


def flag_promoted(tx: database.Transaction, tenant_id: UUID, held: StoredStates, era: Era, now: float) -> list[UUID]:
    """Flag newly promoted memories, and add the reason to their history.

    A flag is removed only by a demotion, after which the memory is promoted again only by hand.

    Args:
        tx: The tenant's transaction, which has locked the rows.
        held: States after the use or review, advanced to the era.
        era: The era whose forgetting model applies.
        now: Seconds since 1970.

    Returns:
        The ids of the newly flagged memories.
    """
    reasons = promotion_reasons(era.dynamics, held.state, now)
    rows = np.flatnonzero(reasons != "")
    strength = era.dynamics.strength(held.state, now)
    flags = {held.ids[row]: NewFlag(str(reasons[row]), float(strength[row])) for row in rows}
    return write_flags(tx, tenant_id, flags, now)


def write_flags(
    tx: database.Transaction, tenant_id: UUID, flags: dict[UUID, NewFlag], now: float, *, by_hand: bool = False
) -> list[UUID]:
    """Flag memories whose rows are locked, and add the reasons to their history.

    Args:
        flags: Reason and strength by memory.
        now: Seconds since 1970.
        by_hand: Also flag memories that were demoted.

    Returns:
        The ids of the newly flagged memories.
    """
    flagged = promotion.set_flags(tx, tenant_id, flags, now, also_demoted=by_hand)
    if flagged:
        codes = [REASONS.index(flags[memory_id].reason) for memory_id in flagged]
        strengths = [flags[memory_id].strength for memory_id in flagged]
        history.add(tx, tenant_id, "promoted", flagged, EventChange(now, codes, codes, strengths))
    return flagged
