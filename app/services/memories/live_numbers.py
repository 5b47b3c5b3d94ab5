"""Compute the time-dependent numbers of stored memories (strength, importance, next change) as of any time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import numpy as np

from app.domain.dynamics.timeline import Era
from app.domain.strength import review
from app.domain.strength.links import MissingLink
from app.domain.tiers import decay_tier
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.domain.tiers.tier_decision import TierFacts
from app.services.strength import memory_strength
from app.store.consolidation import supersessions
from app.store.consolidation.supersessions import MemorySupersessions
from app.store.core import database
from app.store.memories import missing_links
from app.store.memories.memories import StoredMemory
from app.store.strength import reviews, states
from app.store.strength.reviews import ReviewSchedule
from app.store.strength.states import StoredStates
from app.store.tiers import protections


@dataclass(frozen=True, slots=True)
class MemoryNumbers:
    """A memory's numbers as of a time.

    Attributes:
        strength: 0 to 1.
        score: The forgetting model's score: equal to the strength, except in mnemex, whose score may exceed 1.
        importance: 0 to 1, without the influence of a search's context.
        decay_tier: The tier that follows from decay alone, before holds and other rules.
        next_due_at: Earliest time at which the memory's tier can change without a use, in seconds since 1970; infinite
            for never.
        review_priority: Closeness of the strength to the middle of the review policy's danger zone, 0 to 1.
    """

    strength: float
    score: float
    importance: float
    decay_tier: str
    next_due_at: float
    review_priority: float


@dataclass(frozen=True, slots=True)
class LiveMemory:
    """A memory's numbers, its review schedule and its relations; only the numbers depend on `as_of`.

    Attributes:
        reviewed: The schedule after the last review; None before the first review.
        around: The memories that this memory supersedes, and the memories that supersede it.
        links_missing: The links that were submitted with it and don't exist.
    """

    numbers: MemoryNumbers
    next_review_at: datetime
    interval_days: float
    reviewed: ReviewSchedule | None
    around: MemorySupersessions
    links_missing: Sequence[MissingLink] = ()


def live_numbers(
    tenant_id: UUID, stored: Sequence[StoredMemory], as_of: datetime | None = None
) -> dict[UUID, LiveMemory]:
    """Return the numbers of memories as of a time, by id; memories deleted after they were read are omitted.

    Args:
        as_of: Any time; None for now. For a time before a memory's anchor (the last change of its strength state), the
            numbers are computed as of its anchor.
    """
    if not stored:
        return {}
    ids = sorted(row.memory_id for row in stored)
    with database.tenant(tenant_id) as tx:
        stored_states = states.read(tx, tenant_id, ids)
        reviewed = reviews.read(tx, tenant_id, ids)
        around = supersessions.list_around(tx, tenant_id, ids)
        unlinked: dict[UUID, list[MissingLink]] = {}
        for link in missing_links.list_of(tx, tenant_id, ids):
            unlinked.setdefault(link.memory_id, []).append(link)
        # Read after the rows, which may refer to a policy that was just added.
        times = memory_strength.load_timeline(tx, tenant_id)
        facts = protections.read(tx, tenant_id, stored_states.ids, times.at(database.now(tx).timestamp()).policy.rules)
        now = (as_of or database.now(tx)).timestamp()
    # A memory that has decayed for very long may have an anchor before its policy took effect.
    moments = np.maximum(np.maximum(stored_states.state.anchored_at, times.since(stored_states.versions)), now)
    numbers: dict[UUID, MemoryNumbers] = {}
    for moment in np.unique(moments).tolist():  # several times only if `as_of` is before some anchors
        places = np.flatnonzero(moments == moment)
        part = memory_strength.advance_to_era(stored_states.only(places), times, moment)
        numbers |= _numbers(part, facts.select(places), times.at(moment), moment)
    first_interval_days = times.at(now).policy.review.first_interval_days
    return {
        row.memory_id: _live(
            row,
            numbers[row.memory_id],
            reviewed.get(row.memory_id),
            around.get(row.memory_id, MemorySupersessions()),
            unlinked.get(row.memory_id, []),
            first_interval_days,
        )
        for row in stored
        if row.memory_id in numbers
    }


def _numbers(held: StoredStates, standing: TierFacts, era: Era, moment: float) -> dict[UUID, MemoryNumbers]:
    policy, state = era.policy, held.state
    strengths = memory_strength.evaluate_strength(era, state, moment)
    due_at = memory_strength.due_at(era, state, moment, strengths, standing)
    is_deletable = policy.rules.judge_keep(standing.keep, state).is_deletable
    required = decay_tier.decay_tier(policy.thresholds, state, moment, strengths, standing.accepted_at, is_deletable)
    columns = (
        strengths.strength.tolist(),
        era.dynamics.score(state, moment).tolist(),
        strengths.importance.tolist(),
        [DECAY_TIERS[place] for place in required],
        due_at.tolist(),
        review.danger_priority(policy.review, strengths.strength).tolist(),
    )
    return {memory_id: MemoryNumbers(*row) for memory_id, row in zip(held.ids, zip(*columns, strict=True), strict=True)}


def _live(
    row: StoredMemory,
    numbers: MemoryNumbers,
    reviewed: ReviewSchedule | None,
    around: MemorySupersessions,
    unlinked: Sequence[MissingLink],
    first_interval_days: float,
) -> LiveMemory:
    if reviewed is None:
        due_at = row.created_at + timedelta(days=first_interval_days)
        return LiveMemory(numbers, due_at, first_interval_days, None, around, unlinked)
    return LiveMemory(numbers, reviewed.due_at, reviewed.interval_days, reviewed, around, unlinked)
