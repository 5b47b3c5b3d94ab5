"""Plan the outcome for each group; used by previews, summarisation, and again under lock before writing.

Writers plan again with the rows locked, and skip groups whose plan has changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

import numpy as np
import numpy.typing as npt

from app.domain.consolidation import deciding
from app.domain.consolidation.deciding import NO_THREAD, Members, Verdict
from app.domain.consolidation.parameters import Consolidation, Level
from app.domain.consolidation.records import Form, Group, Source
from app.domain.dynamics.state import DAY_SECONDS, State
from app.domain.dynamics.timeline import Era
from app.domain.policy.policy import Policy
from app.domain.tiers import lifecycle
from app.domain.tiers.lifecycle import Standing
from app.domain.tiers.protection import Protection
from app.domain.tiers.tiers import Seen
from app.services.strength import strengths
from app.store.consolidation import consolidation as rows
from app.store.consolidation.consolidation import Day, Fact
from app.store.core import database
from app.store.erasure import requests
from app.store.strength import states
from app.store.strength.states import Held
from app.store.tiers import standings


@dataclass(frozen=True, slots=True)
class Terms:
    """Parameters of a run.

    Attributes:
        as_of: The time that the whole run uses as now.
        level: Compression level of the summaries.
    """

    as_of: datetime
    level: Level


@dataclass(frozen=True, slots=True)
class Plan:
    """The planned outcome for a group of memories.

    Attributes:
        group: The group, reduced to its active memories.
        verdict: The action, and the memories it applies to.
        facts: The callers' data, in id order.
        held: Strength states converted to the current policy, in id order.
        seen: Strength and importance as of the run's time, in id order.
    """

    group: Group
    verdict: Verdict
    facts: list[Fact]
    held: Held
    seen: Seen

    @property
    def taken(self) -> list[int]:
        """Positions of the memories to summarise or link."""
        return [int(place) for place in np.flatnonzero(self.verdict.taken)]

    @property
    def taken_ids(self) -> list[UUID]:
        """Ids of the memories to summarise or link."""
        return [self.group.ids[place] for place in self.taken]

    @property
    def form(self) -> Form | None:
        """The kind of summary to write, or None if the group is only linked."""
        action = self.verdict.action
        return None if action is None or action == "link" else action

    @property
    def sources(self) -> list[Source]:
        """The summary's sources in the order of their statement times."""
        made = [
            Source(fact.memory_id, fact.text, fact.speaker, fact.said_at, float(self.seen.importance[place]))
            for place in self.taken
            for fact in [self.facts[place]]
        ]
        return sorted(made, key=lambda source: (source.said_at, source.memory_id))

    def is_as(self, other: Plan) -> bool:
        """Return whether both plans take the same action on the same memories with unchanged texts."""
        mine, theirs = (
            (plan.verdict.action, plan.verdict.waits, plan.verdict.level, _versions(plan)) for plan in (self, other)
        )
        return mine == theirs and self.taken_ids == other.taken_ids


def _versions(plan: Plan) -> dict[UUID, int]:
    return {fact.memory_id: fact.text_version for fact in plan.facts}


def rules_of(policy: Policy) -> tuple[Consolidation, bool]:
    """Return a policy's consolidation rules, and whether cohesion decides instead of the table."""
    rules = policy.consolidation
    chosen = rules.rule
    if chosen == "by_profile":
        return rules, policy.forgetting.profile == "mnemex"
    return rules, chosen == "cohesion"


def plan(
    tx: database.Transaction,
    tenant_id: UUID,
    groups: Sequence[Group],
    terms: Terms,
    *,
    fewer: Mapping[Day, int] | None = None,
    lock: bool = False,
    agreed: bool = False,
) -> tuple[Era, list[Plan | None]]:
    """Plan the outcome of each group; None for unchanged groups and groups that an earlier merge has handled.

    Groups are processed in order: since each day keeps at least one memory, the memories that a group takes limit the
    following groups.

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
    held = states.lock(tx, tenant_id, ids) if lock else states.read(tx, tenant_id, ids)
    times = strengths.timeline(tx, tenant_id)
    now = terms.as_of.timestamp()
    era = times.at(now)
    facts = rows.facts(tx, tenant_id, held.ids, era.policy.time_zone)
    held = held.only(np.flatnonzero([memory_id in facts for memory_id in held.ids]))
    ahead = (held.versions > era.version) | (held.state.anchored_at > now)
    held = strengths.advance_to_era(held, times, now)
    standing = standings.read(tx, tenant_id, held.ids, era.policy.rules)
    seen = strengths.evaluate(era, held.state, now)
    is_kept = ahead | _is_protected(era.policy.protection, standing, held.state, seen)
    ages = (now - standing.grace_from) / DAY_SECONDS
    on_day = rows.on_days(tx, tenant_id, {_day(fact) for fact in facts.values()}, era.policy.time_zone)
    on_day = {day: many - (fewer or {}).get(day, 0) for day, many in on_day.items()}
    places = {memory_id: place for place, memory_id in enumerate(held.ids)}
    present = [_present(group, facts) for group in groups]
    known = rows.known(
        tx, tenant_id, [{each: facts[each].text_version for each in group.ids} if group else {} for group in present]
    )
    rules, by_cohesion = rules_of(era.policy)
    plans: list[Plan | None] = []
    for place, group in enumerate(present):
        if group is None:
            plans.append(None)
            continue
        chosen = np.array([places[memory_id] for memory_id in group.ids])
        said = [facts[memory_id] for memory_id in group.ids]
        members = Members(
            importance=seen.importance[chosen],
            age_days=ages[chosen],
            said_at=np.array([fact.said_at for fact in said]),
            threads=_numbered([fact.thread for fact in said]),
            is_kept=is_kept[chosen],
            days=np.array([fact.day for fact in said]),
            on_day=np.array([on_day[_day(fact)] for fact in said]),
        )
        if agreed:
            verdict = deciding.agreed(rules, members, terms.level)
        else:
            verdict = deciding.decide(rules, members, group.cohesion, terms.level, by_cohesion=by_cohesion)
        # Any earlier merge of the group makes a link unnecessary; an earlier link doesn't rule out a summary.
        dealt = known.get(place, set()) if verdict.action == "link" else known.get(place, set()) - {True}
        if verdict.action is None or (dealt and not agreed):
            plans.append(None)
            continue
        found = Plan(group, verdict, said, held.only(chosen), Seen(*(column[chosen] for column in seen)))
        plans.append(found)
        if found.form is not None and not verdict.waits:
            for taken in found.taken:
                on_day[_day(said[taken])] -= 1
    return era, plans


def _is_protected(protection: Protection, standing: Standing, state: State, seen: Seen) -> npt.NDArray[np.bool_]:
    """Return which memories are protected by hold, erasure, mark, use or kind, not by importance or daily minimum."""
    return np.asarray(
        standing.is_held
        | np.isfinite(standing.erase_at)
        | lifecycle.never_forget(protection, standing, state, seen)
        | lifecycle.is_of(standing, protection.grace_kinds)
    )


def _present(group: Group, facts: Mapping[UUID, Fact]) -> Group | None:
    """Reduce a group to its active memories; return None if fewer than two are left or their subjects differ."""
    ids = [memory_id for memory_id in group.ids if memory_id in facts]
    if len(ids) < 2 or len({facts[memory_id].subject for memory_id in ids}) > 1:
        return None
    return replace(group, ids=sorted(ids))


def _day(fact: Fact) -> Day:
    return Day(fact.subject, fact.day)


def _numbered(threads: Sequence[str | None]) -> npt.NDArray[np.int64]:
    numbers: dict[str | None, int] = {None: NO_THREAD}
    return np.array([numbers.setdefault(thread, len(numbers)) for thread in threads], np.int64)


def days_losing_memories(found: Plan) -> list[Day]:
    """Return the day of each memory that the plan removes from active memory."""
    if found.form is None or found.verdict.waits:
        return []
    return [_day(found.facts[place]) for place in found.taken]
