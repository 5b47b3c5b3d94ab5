"""Plan the outcome for each group of similar memories, before a preview or a summary of it is generated.

Writers plan again with the rows locked, and skip groups whose plan has changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

import numpy as np
import numpy.typing as npt

from app.domain.consolidation import group_decision
from app.domain.consolidation.group_decision import NO_THREAD, GroupVerdict, Members
from app.domain.consolidation.group_types import Form, Group, Source
from app.domain.consolidation.parameters import Consolidation, Level
from app.domain.dynamics.state import DAY_SECONDS, State
from app.domain.dynamics.timeline import Era
from app.domain.policy.policy import Policy
from app.domain.tiers import tier_decision
from app.domain.tiers.decay_tier import CurrentStrength
from app.domain.tiers.keep_rule import KeepFacts
from app.domain.tiers.tier_decision import TierFacts, TierRules
from app.services.strength import memory_strength
from app.store.consolidation import merged_memories
from app.store.consolidation.merged_memories import LocalDate, MemoryFacts
from app.store.core import database
from app.store.erasure import requests
from app.store.strength import states
from app.store.strength.states import StoredStates
from app.store.tiers import protections


@dataclass(frozen=True, slots=True)
class RunTerms:
    """Parameters of a run.

    Attributes:
        as_of: Reference time of the whole run.
        level: Compression level of the summaries.
    """

    as_of: datetime
    level: Level


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """The planned outcome for a group of memories.

    Attributes:
        group: The group, reduced to its active memories.
        verdict: The action, and the memories to which it applies.
        facts: The memories' data as sent by callers, in id order.
        held: Strength states converted to the current policy, in id order.
        seen: Strength and importance as of the run's time, in id order.
        keep: Keep chances, in id order.
    """

    group: Group
    verdict: GroupVerdict
    facts: list[MemoryFacts]
    held: StoredStates
    seen: CurrentStrength
    keep: KeepFacts

    @property
    def taken_places(self) -> list[int]:
        """Positions of the memories to summarise or link."""
        return [int(position) for position in np.flatnonzero(self.verdict.taken)]

    @property
    def taken_ids(self) -> list[UUID]:
        """Ids of the memories to summarise or link."""
        return [self.group.ids[position] for position in self.taken_places]

    @property
    def form(self) -> Form | None:
        """The kind of summary to write, or None if the group is only linked."""
        action = self.verdict.action
        return None if action is None or action == "link" else action

    @property
    def sources(self) -> list[Source]:
        """The summary's sources in the order of their statement times."""
        unsorted = [
            Source(fact.memory_id, fact.text, fact.speaker, fact.said_at, float(self.seen.importance[position]))
            for position in self.taken_places
            for fact in [self.facts[position]]
        ]
        return sorted(unsorted, key=lambda source: (source.said_at, source.memory_id))

    def is_as(self, other: GroupPlan) -> bool:
        """Return True if both plans take the same action on the same memories with the same text versions."""
        mine, theirs = (
            (plan.verdict.action, plan.verdict.waits, plan.verdict.level, _versions(plan)) for plan in (self, other)
        )
        return mine == theirs and self.taken_ids == other.taken_ids


def _versions(plan: GroupPlan) -> dict[UUID, int]:
    return {fact.memory_id: fact.text_version for fact in plan.facts}


def merge_rules(policy: Policy) -> tuple[Consolidation, bool]:
    """Return a policy's consolidation rules, and True if actions depend on cohesion instead of the decision table."""
    rules = policy.consolidation
    rule = rules.rule
    if rule == "by_profile":
        return rules, policy.forgetting.profile == "mnemex"
    return rules, rule == "cohesion"


def plan_groups(
    tx: database.Transaction,
    tenant_id: UUID,
    groups: Sequence[Group],
    terms: RunTerms,
    *,
    fewer: Mapping[LocalDate, int] | None = None,
    lock: bool = False,
    agreed: bool = False,
) -> tuple[Era, list[GroupPlan | None]]:
    """Plan the outcome of each group; None for groups to leave unchanged and groups that an earlier merge has handled.

    Groups are processed in order: each day must retain at least one active memory, so the memories that one group
    takes limit the following groups.

    Args:
        tx: The tenant's transaction; with `lock`, it must share the legal holds' lock.
        groups: Disjoint groups.
        fewer: For dry runs, the number of active memories to subtract from each day's stored count.
        lock: Whether to lock the memories and their states.
        agreed: Whether the merge was approved by a person; earlier merges are then ignored.

    Returns:
        The policy in force, and the plans in the order of the groups.
    """
    ids = sorted({memory_id for group in groups for memory_id in group.ids})
    if lock:
        requests.lock_rows(tx, tenant_id, ids)
    stored = states.lock(tx, tenant_id, ids) if lock else states.read(tx, tenant_id, ids)
    times = memory_strength.load_timeline(tx, tenant_id)
    now = terms.as_of.timestamp()
    era = times.at(now)
    facts = merged_memories.read_facts(tx, tenant_id, stored.ids, era.policy.time_zone)
    stored = stored.only(np.flatnonzero([memory_id in facts for memory_id in stored.ids]))
    ahead = (stored.versions > era.version) | (stored.state.anchored_at > now)
    stored = memory_strength.advance_to_era(stored, times, now)
    tier_facts = protections.read(tx, tenant_id, stored.ids, era.policy.rules)
    current = memory_strength.evaluate_strength(era, stored.state, now)
    is_kept = ahead | _is_protected(era.policy.rules, tier_facts, stored.state, current)
    keep = era.policy.rules.judge_keep(tier_facts.keep, stored.state)
    ages = (now - tier_facts.grace_from) / DAY_SECONDS
    on_day = merged_memories.on_days(tx, tenant_id, {_day(fact) for fact in facts.values()}, era.policy.time_zone)
    on_day = {day: active_count - (fewer or {}).get(day, 0) for day, active_count in on_day.items()}
    positions = {memory_id: index for index, memory_id in enumerate(stored.ids)}
    present = [_present(group, facts) for group in groups]
    earlier_merges = merged_memories.find_merged_groups(
        tx,
        tenant_id,
        [{member_id: facts[member_id].text_version for member_id in group.ids} if group else {} for group in present],
    )
    rules, by_cohesion = merge_rules(era.policy)
    plans: list[GroupPlan | None] = []
    for index, group in enumerate(present):
        if group is None:
            plans.append(None)
            continue
        rows = np.array([positions[memory_id] for memory_id in group.ids])
        group_facts = [facts[memory_id] for memory_id in group.ids]
        members = Members(
            importance=current.importance[rows],
            age_days=ages[rows],
            said_at=np.array([fact.said_at for fact in group_facts]),
            threads=_numbered([fact.thread for fact in group_facts]),
            is_kept=is_kept[rows],
            is_protected=(keep.by_salience | keep.by_chance)[rows],
            days=np.array([fact.day for fact in group_facts]),
            on_day=np.array([on_day[_day(fact)] for fact in group_facts]),
        )
        if agreed:
            verdict = group_decision.approve_verdict(rules, members, terms.level)
        else:
            verdict = group_decision.decide_group(rules, members, group.cohesion, terms.level, by_cohesion=by_cohesion)
        # Any earlier merge or link of the group makes a link unnecessary; an earlier link doesn't rule out a summary.
        handled = (
            earlier_merges.get(index, set()) if verdict.action == "link" else earlier_merges.get(index, set()) - {True}
        )
        if verdict.action is None or (handled and not agreed):
            plans.append(None)
            continue
        seen = CurrentStrength(*(column[rows] for column in current))
        plan = GroupPlan(group, verdict, group_facts, stored.only(rows), seen, tier_facts.keep[rows])
        plans.append(plan)
        if plan.form is not None and not verdict.waits:
            for position in plan.taken_places:
                on_day[_day(group_facts[position])] -= 1
    return era, plans


def _is_protected(rules: TierRules, standing: TierFacts, state: State, seen: CurrentStrength) -> npt.NDArray[np.bool_]:
    """Return the mask of memories protected by hold, erasure, mark, use, kind or promotion.

    Protection by importance and by the daily minimum depends on the group and is decided in `group_decision`.
    """
    return np.asarray(
        standing.is_held
        | np.isfinite(standing.erase_at)
        | tier_decision.never_forget(rules.protection, standing, state, seen)
        | tier_decision.keeps_as_promoted(rules, standing)
        | tier_decision.is_of(standing, rules.protection.grace_kinds)
    )


def _present(group: Group, facts: Mapping[UUID, MemoryFacts]) -> Group | None:
    """Reduce a group to its active memories; return None if fewer than two are left or their subjects differ."""
    ids = [memory_id for memory_id in group.ids if memory_id in facts]
    if len(ids) < 2 or len({facts[memory_id].subject for memory_id in ids}) > 1:
        return None
    return replace(group, ids=sorted(ids))


def _day(fact: MemoryFacts) -> LocalDate:
    return LocalDate(fact.subject, fact.day)


def _numbered(threads: Sequence[str | None]) -> npt.NDArray[np.int64]:
    numbers: dict[str | None, int] = {None: NO_THREAD}
    return np.array([numbers.setdefault(thread, len(numbers)) for thread in threads], np.int64)


def list_affected_days(found: GroupPlan) -> list[LocalDate]:
    """Return the subject and day of each memory that the plan archives; empty if nothing is archived now."""
    if found.form is None or found.verdict.waits:
        return []
    return [_day(found.facts[position]) for position in found.taken_places]
