"""Find the threshold of the keep chance that keeps a wanted share of a tenant's memories."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final
from uuid import UUID

import numpy as np

from app.domain.policy.policy import Policy
from app.domain.tiers import keep_calibration, keep_rule, tier_decision
from app.domain.tiers.keep_calibration import FoundThreshold
from app.services.strength import memory_strength
from app.store.core import database
from app.store.tenants import keep_calibrations

PAGE_ROWS: Final = 20_000


def find_threshold(
    tenant_id: UUID,
    policy: Policy,
    as_of: datetime,
    one_in: int = 1,
) -> FoundThreshold | None:
    """Find the threshold for the policy's target share among the tenant's memories; None if it has no target.

    Memories under a legal hold, permanently protected memories, and memories rated as salient by the caller come first:
    they count towards the share, and are kept even if they exceed it.

    Args:
        as_of: Time of the decision.
        one_in: Sample one memory out of this many.
    """
    target = policy.tiers.target_active_share
    if target is None:
        return None
    now, rules = as_of.timestamp(), policy.rules
    with database.tenant(tenant_id) as tx:
        times = memory_strength.load_timeline(tx, tenant_id)
        deleted = keep_calibrations.read(tx, tenant_id).deleted
    chances, kept, memories = [np.empty(0)], 0, deleted // one_in
    for stored, [facts] in memory_strength.iterate_pages(tenant_id, PAGE_ROWS, [rules], one_in=one_in):
        state = memory_strength.advance_to_era(stored, times, now).state
        seen = memory_strength.evaluate_strength(times.at(now), state, now)
        verdict = rules.judge_keep(facts.keep, state)
        chance = keep_rule.shifted(facts.keep, state.salience)
        is_kept = facts.is_held | verdict.by_salience | tier_decision.keeps_as_promoted(rules, facts)
        is_kept |= tier_decision.never_forget(rules.protection, facts, state, seen)
        kept += int(is_kept.sum())
        memories += len(stored)
        chances.append(chance[~is_kept & ~np.isnan(chance)])
    return keep_calibration.find_threshold(target, np.concatenate(chances), kept, memories)


def resolve_target(
    tenant_id: UUID, policy: Policy, as_of: datetime, one_in: int = 1
) -> tuple[Policy, FoundThreshold | None]:
    """Return a planned policy with its target share replaced by the threshold found for it, and this threshold.

    A policy without a target share is returned unchanged, with None. See `find_threshold` for the arguments.
    """
    found = find_threshold(tenant_id, policy, as_of, one_in)
    if found is None:
        return policy, None
    protection = replace(policy.protection, keep_chance_above=found.threshold)
    tiers = replace(policy.tiers, target_active_share=None)
    return policy.model_copy(update={"protection": protection, "tiers": tiers}), found


def read_threshold(tenant_id: UUID, policy: Policy) -> float | None:
    """Return the threshold of the keep chance in force under a policy; None if the policy decides by salience."""
    if policy.protection.salience_above is not None:
        return None
    with database.tenant(tenant_id) as tx:
        return keep_calibrations.read(tx, tenant_id).read_threshold(policy.rules)
