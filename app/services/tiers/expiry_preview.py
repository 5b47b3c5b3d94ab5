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

_GOES: Final = "all its sources expire: the summary is deleted"
_FADED: Final = "some of its sources expire, and the summary is no longer active: it is deleted"
_AGAIN: Final = "some of its sources expire: the summary is regenerated from the {left:,} remaining sources"


def preview_summaries(tenant_id: UUID, as_of: datetime | None, memory_ids: Sequence[UUID]) -> list[PredictedMove]:
    """Return which summaries of memories expired at a given time would be deleted or regenerated, in id order.

    A summary with sources on several pages is reported on the page of its first expiring source. Summaries that expire
    themselves or are under a legal hold are omitted.

    Args:
        as_of: Reference time; None for now.
        memory_ids: A page of expiring memories.
    """
    with database.tenant(tenant_id) as tx:
        summary_ids = merges.list_summaries(tx, tenant_id, memory_ids)
        if not summary_ids:
            return []
        sources = merges.list_sources(tx, tenant_id, summary_ids)
        now = (as_of or database.now(tx)).timestamp()
        times = memory_strength.load_timeline(tx, tenant_id)
        era = times.at(now)
        stored = states.read(
            tx, tenant_id, sorted({*summary_ids, *(source_id for ids in sources.values() for source_id in ids)})
        )
        facts = protections.read(tx, tenant_id, stored.ids, era.policy.rules)
    rules = memory_strength.decide_tiers(era, memory_strength.advance_to_era(stored, times, now).state, now, facts)[
        1
    ].rules
    expired = {stored.ids[row] for row in np.flatnonzero(rules == EXPIRY)}
    rows_by_id = {memory_id: row for row, memory_id in enumerate(stored.ids)}
    moves = []
    for summary in summary_ids:
        if summary not in rows_by_id or summary in expired or facts.is_held[rows_by_id[summary]]:
            continue
        source_ids = sources[summary]
        if min(expired.intersection(source_ids), default=None) in memory_ids:
            remaining = sum(source_id in rows_by_id and source_id not in expired for source_id in source_ids)
            moves.append(_describe_move(summary, int(facts.tiers[rows_by_id[summary]]), remaining))
    return moves


def _describe_move(summary: UUID, tier: int, left: int) -> PredictedMove:
    before, rule = DECAY_TIERS[tier], RULES[EXPIRY]
    if left and before == "active":
        return PredictedMove(summary, before, before, rule, _AGAIN.format(left=left))
    return PredictedMove(summary, before, "deleted", rule, _FADED if left else _GOES)
