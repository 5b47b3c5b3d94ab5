"""Measure the effect of a policy change on a tenant's memories without writing anything."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.conversion import conversion_losses
from app.domain.dynamics.state import DAY_SECONDS
from app.domain.dynamics.timeline import Era, Timeline
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.domain.tiers.keep_calibration import FoundThreshold
from app.domain.tiers.tier_decision import TierFacts
from app.services.strength import keep_threshold, memory_strength
from app.store.strength.states import StoredStates

PAGE_ROWS: Final = 20_000
SAMPLES: Final = 20
LATER_DAYS: Final = 30
SECONDS_MAX: Final = 40.0
"""Time limit; clients time out after a minute."""


@dataclass
class PolicyImpact:
    """The effect of a policy on the tiers when it takes effect, and `LATER_DAYS` later if no memory is used until then.

    Attributes:
        at: When the policy takes effect, in seconds since 1970.
        memories: Number of memories examined.
        complete: Whether every memory was examined within `SECONDS_MAX`.
        before: Number of memories by the tier decided for them at that time, without the change.
        after: Number of memories by the tier decided for them at that time, with the change.
        later_before: Like `before`, but `LATER_DAYS` later.
        later_after: Like `after`, but `LATER_DAYS` later.
        moves: Number of memories that the change moves, by their tiers before and after.
        sample: The first `SAMPLES` of these memories, with their tiers before and after.
        lost: Number of memories that permanently lose information, by name in `conversion.LOSSES`.
        found: Threshold of the keep chance found for the policy's `tiers.target_active_share`; None if that isn't set.
    """

    at: float
    memories: int = 0
    complete: bool = True
    before: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    later_before: Counter[str] = field(default_factory=Counter)
    later_after: Counter[str] = field(default_factory=Counter)
    moves: Counter[tuple[str, str]] = field(default_factory=Counter)
    sample: list[tuple[UUID, str, str]] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)
    found: FoundThreshold | None = None


def measure_impact(tenant_id: UUID, times: Timeline, era: Era) -> PolicyImpact:
    """Measure the effects of a policy that hasn't been set yet.

    Args:
        times: The tenant's policies.
        era: The planned policy with the time at which it takes effect; its version exceeds all others.

    Raises:
        ProfileMissing: A policy's forgetting model isn't installed.
    """
    began = time.monotonic()
    now = datetime.fromtimestamp(era.since, UTC)
    policy, found = keep_threshold.resolve_target(tenant_id, era.policy, now)
    changed = Timeline([*times.eras, Era(era.version, era.since, policy)])
    effects = PolicyImpact(era.since, found=found)
    later = effects.at + LATER_DAYS * DAY_SECONDS
    eras = [each.at(moment) for moment in (effects.at, later) for each in (times, changed)]
    for stored, standings in memory_strength.iterate_pages(tenant_id, PAGE_ROWS, [each.policy.rules for each in eras]):
        if effects.memories and time.monotonic() - began > SECONDS_MAX:
            effects.complete = False
            break
        _add(effects, stored, standings, times, changed)
    return effects


def _add(
    effects: PolicyImpact, held: StoredStates, standings: Sequence[TierFacts], times: Timeline, changed: Timeline
) -> None:
    at, later = effects.at, effects.at + LATER_DAYS * DAY_SECONDS
    held = _anchor_memories(held, times, at)
    before, after = _tiers(times, held, standings[0], at), _tiers(changed, held, standings[1], at)
    effects.memories += len(held)
    for counts, tiers in (
        (effects.before, before),
        (effects.after, after),
        (effects.later_before, _tiers(times, held, standings[2], later)),
        (effects.later_after, _tiers(changed, held, standings[3], later)),
    ):
        counts.update(dict(zip(DECAY_TIERS, np.bincount(tiers, minlength=len(DECAY_TIERS)).tolist(), strict=True)))
    moving = np.flatnonzero(before != after)
    pairs = [(DECAY_TIERS[before[row]], DECAY_TIERS[after[row]]) for row in moving]
    effects.moves.update(pairs)
    room = SAMPLES - len(effects.sample)
    effects.sample += [(held.ids[row], *pair) for row, pair in zip(moving[:room], pairs, strict=False)]
    lost = conversion_losses(held.state, at, times.at(at).dynamics, changed.at(at).dynamics)
    effects.lost.update({name: int(rows.sum()) for name, rows in lost.items()})


def _anchor_memories(held: StoredStates, times: Timeline, at: float) -> StoredStates:
    """Anchor the memories at this time, so that earlier decay is computed only once."""
    era = times.at(at)
    state = era.dynamics.advance(memory_strength.advance_to_era(held, times, at).state, at)
    return replace(held, state=state, versions=np.full(len(held), era.version))


def _tiers(times: Timeline, held: StoredStates, standing: TierFacts, moment: float) -> npt.NDArray[np.int8]:
    """Return the tiers decided for memories at a time, as indices into `DECAY_TIERS`."""
    state = memory_strength.advance_to_era(held, times, moment).state
    _, decision = memory_strength.decide_tiers(times.at(moment), state, moment, standing)
    return decision.tiers
