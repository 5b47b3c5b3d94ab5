"""Compute current strengths across policy versions, and change the inputs of strengths while preserving past decay."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.profiles import rebase
from app.domain.dynamics.state import State
from app.domain.dynamics.timeline import Era, Timeline
from app.domain.policy.policy import Policy
from app.domain.strength import importance
from app.domain.tiers import tier_decision
from app.domain.tiers.decay_tier import DECAY_TIERS, CurrentStrength, next_due_at
from app.domain.tiers.tier_decision import Decision, TierFacts, TierRules
from app.store.core import database
from app.store.core.binary_arrays import round_to_microseconds
from app.store.memories import history
from app.store.memories.history import EventChange, EventKind
from app.store.strength import states
from app.store.strength.states import EvaluationResults, StoredStates
from app.store.tenants import policies
from app.store.tiers import protections

# A memory's inputs to the formulas whose changes are recorded in its history.
_INPUTS: Final[tuple[EventKind, ...]] = ("kind", "salience", "multiplier", "pace")

# A use may be reported late by up to this share of the refresh period (a day of a weekly period) without changing its
# effect.
_TOLD_LATE: Final = 1 / 7


def load_timeline(tx: database.Transaction, tenant_id: UUID) -> Timeline:
    """Return the tenant's policies in chronological order."""
    return build_timeline(policies.list_versions(tx, tenant_id))


def build_timeline(versions: Sequence[tuple[int, float, str]]) -> Timeline:
    """Build the timeline from policy versions that were already read (number, start in seconds since 1970, JSON)."""
    return Timeline([_era(*version) for version in versions])


def load_eras(tx: database.Transaction, tenant_id: UUID) -> list[Era]:
    """Return all versions of the tenant's policy by number, including those that were never in force."""
    return [_era(*version) for version in policies.list_versions(tx, tenant_id)]


def iterate_pages(
    tenant_id: UUID, rows: int, rules: Sequence[TierRules], subject: str | None = None, one_in: int = 1
) -> Iterator[tuple[StoredStates, list[TierFacts]]]:
    """Yield pages of a tenant's memories by id, optionally about one subject, each with its tier facts.

    Each page is read in its own transaction, so that none is open while the page is processed.

    Args:
        rows: Memories per page.
        rules: Rules of the policies to evaluate; each page has one `TierFacts` for each of them.
        one_in: Without a subject, sample one memory out of this many.
    """
    after, has_more = UUID(int=0), True
    while has_more:
        with database.tenant(tenant_id) as tx:
            stored = states.list_page(tx, tenant_id, after, rows, subject, one_in)
            facts = {rule: protections.read(tx, tenant_id, stored.ids, rule) for rule in dict.fromkeys(rules)}
        if stored.ids:
            yield stored, [facts[rule] for rule in rules]
            after = stored.ids[-1]
        has_more = len(stored) == rows


def advance_to_era(held: StoredStates, times: Timeline, now: float) -> StoredStates:
    """Return the memories with their states advanced to the era at `now`; the caller writes that era's version, too."""
    return replace(held, state=times.advance_to(held.state, held.versions, now))


def evaluate_strength(era: Era, state: State, now: float) -> CurrentStrength:
    """Return the strength and the context-free importance of memories advanced to this era."""
    return CurrentStrength(era.dynamics.strength(state, now), importance.importance(era.policy.importance, state, now))


def due_at(era: Era, state: State, now: float, seen: CurrentStrength, standing: TierFacts | None = None) -> Floats:
    """Return a lower bound of the next time at which the decision on memories advanced to this era can change.

    Without `standing`, the bound ignores the times of `tier_decision.fixed_due_at` (the ends of grace, minimum age and
    retention periods, and erasures), which a use can't postpone.
    """
    policy = era.policy
    steps = (policy.protection.semantic_importance_above, policy.protection.grace_importance_above)
    due = next_due_at(policy.thresholds, policy.importance, era.dynamics, state, now, seen, steps=steps)
    return due if standing is None else np.minimum(due, tier_decision.fixed_due_at(policy.rules, standing, now, seen))


def decide_tiers(era: Era, state: State, now: float, standing: TierFacts) -> tuple[CurrentStrength, Decision]:
    """Return the strength and importance of memories advanced to this era, and the tier decided for each."""
    strengths = evaluate_strength(era, state, now)
    return strengths, tier_decision.decide_tiers(era.policy.rules, standing, state, now, strengths)


def write_uses(
    tx: database.Transaction,
    tenant_id: UUID,
    used: StoredStates,
    era: Era,
    now: float,
    elsewhere: npt.NDArray[np.integer[Any]] | None = None,
) -> None:
    """Write memories that were used, or that a use has strengthened along links.

    A use usually postpones the next change, so the stored due time remains a lower bound. It can be too late if the
    memory was due for another tier, was anchored under an older policy, has risen above an importance threshold and
    will soon fall below it again, or now decays faster (in mnemex, a use drops the factor that may have flattened the
    previous curve). The next sweep re-evaluates such memories.

    Args:
        tx: The tenant's transaction, which has locked the rows.
        used: Memories with their new states, and with the versions, tiers and due times stored in the rows.
        era: The era at `now`.
        now: Seconds since 1970.
        elsewhere: Number of cross-domain uses per memory; None for none.
    """
    due = due_at(era, used.state, now, evaluate_strength(era, used.state, now))
    is_moving = (used.wanted_tiers > 0) | (used.versions != era.version)
    look_again: npt.NDArray[np.bool_] = is_moving | (round_to_microseconds(due) < used.next_due_at)
    states.write_uses(tx, tenant_id, used, era.version, elsewhere=elsewhere, look_again=look_again)


def write_tiers(
    tx: database.Transaction, tenant_id: UUID, held: StoredStates, times: Timeline, now: float
) -> Counter[str]:
    """Advance locked memories to the policy in force at `now`, and write the tier decided for each.

    Anchors are written if the policy has changed or the model advances in steps. Return the number of memories by newly
    decided tier.
    """
    era = times.at(now)
    after = advance_to_era(held, times, now)
    is_stale = held.versions != era.version
    if math.isfinite(era.dynamics.refresh_seconds):
        # Don't advance up to now: a use that is reported late must be later than the anchor, however often this runs.
        anchor_time = now - _TOLD_LATE * era.dynamics.refresh_seconds
        after = replace(after, state=era.dynamics.advance(after.state, anchor_time))
        is_stale[:] = True
    facts = protections.read(tx, tenant_id, held.ids, era.policy.rules)
    strengths, decision = decide_tiers(era, after.state, now, facts)
    results = EvaluationResults(decision.tiers, due_at(era, after.state, now, strengths, facts))
    stale, fresh = np.flatnonzero(is_stale), np.flatnonzero(~is_stale)
    due, tiers = results.next_due_at[stale], results.wanted_tiers[stale]
    states.write_anchors(tx, tenant_id, after.only(stale), era.version, due, tiers)
    states.write_looks(tx, tenant_id, [held.ids[row] for row in fresh], results.only(fresh))
    changed_rows = np.flatnonzero(results.wanted_tiers != held.wanted_tiers)
    new_tiers = results.wanted_tiers[changed_rows]
    change = EventChange(now, held.wanted_tiers[changed_rows], new_tiers, strengths.strength[changed_rows])
    history.add(tx, tenant_id, "wanted_tier", [held.ids[row] for row in changed_rows], change)
    return Counter(DECAY_TIERS[tier] for tier in new_tiers)


@contextmanager
def preserve_strength(tx: database.Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> Iterator[None]:
    """Preserve the current strength of these memories while the block changes inputs of the formulas.

    Past decay is preserved, and future decay follows the new inputs. Only a new multiplier changes the strength
    immediately, as intended. The rows are locked in id order.
    """
    former = states.lock(tx, tenant_id, memory_ids)
    now = database.now(tx).timestamp()  # after locking: a previous writer may have used a newer policy
    yield
    current = states.read(tx, tenant_id, former.ids)
    if current.ids != former.ids:  # a memory was deleted in the block
        remaining_ids = set(current.ids)
        former = former.only(np.flatnonzero([memory_id in remaining_ids for memory_id in former.ids]))
    altered = [getattr(former.state, name) != getattr(current.state, name) for name in _INPUTS]
    changed_rows = np.flatnonzero(np.any(altered, axis=0))
    if not changed_rows.size:
        return
    times = load_timeline(tx, tenant_id)
    era = times.at(now)
    before, after = advance_to_era(former.only(changed_rows), times, now), current.only(changed_rows)
    inputs = replace(after.state, multiplier=before.state.multiplier)
    rebased = rebase(before.state, now, era.dynamics, era.dynamics, inputs)
    state = replace(rebased, multiplier=after.state.multiplier)
    states.write_anchors(tx, tenant_id, replace(after, state=state), era.version)
    _record_changes(tx, tenant_id, before, replace(after, state=state), era, now)


def _record_changes(
    tx: database.Transaction, tenant_id: UUID, before: StoredStates, after: StoredStates, era: Era, now: float
) -> None:
    """Add changed inputs to the history; a first score isn't a change."""
    strength = era.dynamics.strength(after.state, now)
    for name in _INPUTS:
        old, new = getattr(before.state, name), getattr(after.state, name)
        rows = np.flatnonzero((old != new) & before.is_scored)
        change = EventChange(now, old[rows], new[rows], strength[rows])
        history.add(tx, tenant_id, name, [after.ids[row] for row in rows], change)


@lru_cache(maxsize=1024)
def _era(version: int, since: float, body: str) -> Era:
    return Era(version, since, Policy.load_stored(body))
