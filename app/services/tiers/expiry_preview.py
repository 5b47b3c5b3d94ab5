"""Report, for dry runs, which summaries of expiring memories would be deleted and which regenerated."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import numpy as np

from app.domain.tiers.decay_tier import DECAY_TIERS
from app.domain.tiers.tier_decision import EXPIRY, RULES
from app.services.strength import memory_strength
from app.services.tiers.dry_run import PredictedMove
from app.store.consolidation import merges
from app.store.core import database
from app.store.strength import states
from app.store.tiers import protections

_GOES: Final = "made of memories that expire: nothing is left that it could be made of again"
_FADED: Final = "made of memories that expire: it isn't active any more, so it goes with them"
_AGAIN: Final = "made of memories that expire: it is made again of the {left:,} that remain"


def preview_summaries(tenant_id: UUID, as_of: datetime | None, memory_ids: Sequence[UUID]) -> list[PredictedMove]:
    """Return the outcome for the summaries of memories that have expired at a given time, in id order.

    A summary with sources on several pages is reported with the first expiring one. Summaries that expire themselves or
    are under a legal hold are omitted.

    Args:
        as_of: Reference time; None for now.
        memory_ids: A page of expiring memories.
    """
    with database.tenant(tenant_id) as tx:
        made = merges.list_summaries(tx, tenant_id, memory_ids)
        if not made:
            return []
        sources = merges.list_sources(tx, tenant_id, made)
        now = (as_of or database.now(tx)).timestamp()
        times = memory_strength.load_timeline(tx, tenant_id)
        era = times.at(now)
        held = states.read(tx, tenant_id, sorted({*made, *(each for some in sources.values() for each in some)}))
        standing = protections.read(tx, tenant_id, held.ids, era.policy.rules)
    rules = memory_strength.decide_tiers(era, memory_strength.advance_to_era(held, times, now).state, now, standing)[
        1
    ].rules
    expired = {held.ids[row] for row in np.flatnonzero(rules == EXPIRY)}
    at = {memory_id: row for row, memory_id in enumerate(held.ids)}
    told = []
    for summary in made:
        if summary not in at or summary in expired or standing.is_held[at[summary]]:
            continue
        theirs = sources[summary]
        if min(expired.intersection(theirs), default=None) in memory_ids:
            left = sum(each in at and each not in expired for each in theirs)
            told.append(_describe_move(summary, int(standing.tiers[at[summary]]), left))
    return told


def _describe_move(summary: UUID, tier: int, left: int) -> PredictedMove:
    before, rule = DECAY_TIERS[tier], RULES[EXPIRY]
    if left and before == "active":
        return PredictedMove(summary, before, before, rule, _AGAIN.format(left=left))
    return PredictedMove(summary, before, "deleted", rule, _FADED if left else _GOES)
