"""Run consolidation: link or merge groups of similar memories, for the memories that are new since the previous run.

A run processes slices of new memories. Work of an interrupted slice is recognised by its recorded merges, so the slice
is simply repeated; the watermarks advance only at its end.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid4

from app import failpoints, queues
from app.domain.consolidation.group_types import Group
from app.domain.consolidation.parameters import Consolidation, Level
from app.domain.jobs import Job, Step
from app.services.consolidation import candidates, merge_execution, merge_plan, summaries, summary_refresh
from app.services.consolidation.candidates import CandidateSlice
from app.services.consolidation.merge_execution import SummarisedGroup
from app.services.consolidation.merge_plan import GroupPlan, RunTerms
from app.services.consolidation.summaries import SummaryRequest
from app.services.strength import current_policy
from app.services.strength.rebase import STEP_SECONDS, reference_time
from app.services.tenants import quota
from app.services.tiers import archive
from app.store.consolidation import consolidation_runs, merge_candidates
from app.store.consolidation.consolidation_runs import Trigger
from app.store.consolidation.merge_candidates import CandidateMarks
from app.store.consolidation.merged_memories import LocalDate
from app.store.core import database
from app.store.memories import tenant_counts

KIND: Final = "consolidate"
SOURCES: Final = 500
"""Approximate maximum number of memories merged in one transaction."""
PAUSED: Final = "consolidation is paused by the policy: what is left is found again when it is resumed"
MODEL_SECONDS: Final = 20.0
"""Time limit for model calls for one transaction's groups; the summaries are written before the next calls start."""


def run_job_slice(job: Job) -> Step:
    """Run a few seconds of a manually started run."""
    until = time.monotonic() + STEP_SECONDS
    level = job.parameters.get("level")
    return run_slice(job.tenant_id, reference_time(job), job.state, until, by_hand=True, level=level)


def run_slice(
    tenant_id: UUID,
    as_of: datetime | None,
    state: dict[str, Any],
    until: float,
    *,
    by_hand: bool = False,
    level: Level | None = None,
) -> Step:
    """Continue a run from its saved state. In a nightly run, nothing is done unless the policy says so.

    A nightly run ends when the policy pauses consolidation; the next run finds the remaining groups.

    Args:
        as_of: Process memories up to this time; None for the time at which the run began.
        state: State returned by the previous slice; empty at first.
        until: Deadline on the monotonic clock; at least one transaction's worth of work is always done.
        by_hand: Whether the run was started manually.
        level: Compression level of the summaries; None for the policy's level.
    """
    if not state:
        return _start_run(tenant_id, as_of, level, by_hand=by_hand)
    run_id = UUID(state["run"])
    terms = RunTerms(datetime.fromisoformat(state["as_of"]), state["level"])
    if "rederive" in state:
        counts, after = summary_refresh.run_slice(tenant_id, run_id, UUID(state["rederive"]), until)
        left = {name: value for name, value in state.items() if name != "rederive"}
        left |= {} if after is None else {"rederive": after.hex}
        return Step(counts["summaries"], left, finished=False, counts=dict(counts))
    if not by_hand and current_policy.read(tenant_id).consolidation.paused:
        with database.tenant(tenant_id) as tx:
            consolidation_runs.finish_run(tx, tenant_id, run_id)
        return Step(0, state, finished=True, notes=(PAUSED,))
    return _slice(tenant_id, run_id, terms, state, until)


def _start_run(tenant_id: UUID, as_of: datetime | None, level: Level | None, *, by_hand: bool) -> Step:
    rules = current_policy.read(tenant_id).consolidation
    with database.tenant(tenant_id) as tx:
        as_of = as_of or database.now(tx)
        trigger: Trigger | None = "hand" if by_hand else _trigger(tx, tenant_id, rules)
        if trigger is None:
            return Step(0, {}, finished=True)
        level = level or rules.level
        run_id = consolidation_runs.start_run(tx, tenant_id, uuid4(), trigger, level, as_of)
    left_off = {"run": str(run_id), "as_of": as_of.isoformat(), "level": level, "rederive": UUID(int=0).hex}
    return Step(0, left_off, finished=False)


def _trigger(tx: database.Transaction, tenant_id: UUID, rules: Consolidation) -> Trigger | None:
    if rules.paused:
        return None
    if rules.at_night:
        return "night"
    counts = tenant_counts.read(tx, tenant_id)
    if counts.active > rules.memories_above:
        return "count"
    return "quota" if quota.get_usage(tx, tenant_id, counts).state != "below" else None


def _slice(tenant_id: UUID, run_id: UUID, terms: RunTerms, state: dict[str, Any], until: float) -> Step:
    """Process a slice of new memories, or the rest of an interrupted slice."""
    found = _find_groups(tenant_id, terms)
    tried = set(state.get("tried", ()))
    groups = [group for group in found.groups if group.ids[0].hex not in tried]
    chosen = archive.current_basis(tenant_id)
    counts = Counter[str]()
    new = max(found.new, state.get("new", 0))  # a repeated slice counts fewer: merged memories aren't candidates
    for made, among in write_groups(tenant_id, groups, terms):
        counts += merge_execution.write_merges(tenant_id, run_id, terms, made, chosen) if made else Counter()
        tried |= {group.ids[0].hex for group in among}
        if time.monotonic() >= until and len(tried) < len(found.groups):
            _nudge(counts)
            return Step(0, {**state, "tried": sorted(tried), "new": new}, finished=False, counts=dict(counts))
    failpoints.trigger("merge.before_marks")
    seen = Counter(looked_at=new, clusters=len(tried))
    with database.tenant(tenant_id) as tx:
        merge_candidates.write_marks(tx, tenant_id, found.marks)
        consolidation_runs.count(tx, tenant_id, run_id, seen)
        if found.finished:
            consolidation_runs.finish_run(tx, tenant_id, run_id)
    _nudge(counts)
    left = {name: value for name, value in state.items() if name not in ("tried", "new")}
    return Step(new, left, finished=found.finished, counts=dict(counts + seen))


def _nudge(counts: Counter[str]) -> None:
    if counts["summaries"]:
        queues.nudge(queues.EMBED_MEMORIES)


def _find_groups(tenant_id: UUID, terms: RunTerms, marked: CandidateMarks | None = None) -> CandidateSlice:
    rules = current_policy.read(tenant_id).consolidation
    if marked is None:
        with database.tenant(tenant_id) as tx:
            marked = merge_candidates.read_marks(tx, tenant_id)
    return candidates.find_groups(tenant_id, terms.as_of, marked, rules)


def write_groups(
    tenant_id: UUID, groups: Sequence[Group], terms: RunTerms
) -> Iterator[tuple[list[SummarisedGroup], Sequence[Group]]]:
    """Yield groups with their summaries, one transaction's worth at a time, and the groups considered for each."""
    for some in _pieces(groups):
        with database.tenant(tenant_id) as tx:
            _, plans = merge_plan.plan_groups(tx, tenant_id, some, terms)
        yield attach_summaries(tenant_id, [each for each in plans if each is not None]), some


def _pieces(groups: Sequence[Group]) -> Iterator[list[Group]]:
    some: list[Group] = []
    for group in groups:
        some.append(group)
        if sum(len(each.ids) for each in some) >= SOURCES:
            yield some
            some = []
    if some:
        yield some


def attach_summaries(tenant_id: UUID, plans: Sequence[GroupPlan]) -> list[SummarisedGroup]:
    """Attach the required summaries to plans; call it outside of transactions, since models may be slow."""
    wanted = {
        place: SummaryRequest(each.sources, each.form, each.verdict.level)
        for place, each in enumerate(plans)
        if each.form is not None and not each.verdict.waits
    }
    written = summaries.summarise_all(tenant_id, list(wanted.values()), MODEL_SECONDS) if wanted else []
    by_place = dict(zip(wanted, written, strict=True))
    failpoints.trigger("merge.after_summary")
    return [SummarisedGroup(each, by_place.get(place)) for place, each in enumerate(plans)]


@dataclass(frozen=True, slots=True)
class RunPreview:
    """The outcome of a dry run.

    Attributes:
        plans: Groups that a run would change, in order.
        looked_at: Number of new or changed memories.
        clusters: Number of groups that contain them.
        is_complete: Whether all groups are listed.
    """

    plans: list[GroupPlan]
    looked_at: int
    clusters: int
    is_complete: bool


def preview_run(
    tenant_id: UUID, as_of: datetime | None, level: Level | None, limit: int, seconds: float = 20.0
) -> RunPreview:
    """Return the plans of a run without carrying them out: no model is called and nothing is written.

    Args:
        as_of: Evaluate as of this time; None for now.
        level: Compression level of the summaries; None for the policy's level.
        limit: Maximum number of groups.
        seconds: Time after which no further slice is started.
    """
    until = time.monotonic() + seconds
    with database.tenant(tenant_id) as tx:
        moment = as_of or database.now(tx)
        marked = merge_candidates.read_marks(tx, tenant_id)
    terms = RunTerms(moment, level or current_policy.read(tenant_id).consolidation.level)
    plans: list[GroupPlan] = []
    gone, fewer = set[UUID](), Counter[LocalDate]()
    looked_at = clusters = 0
    while True:
        found = _find_groups(tenant_id, terms, marked)
        looked_at, clusters, marked = looked_at + found.new, clusters + len(found.groups), found.marks
        for some in _pieces([left for group in found.groups if (left := _without_merged(group, gone)) is not None]):
            with database.tenant(tenant_id) as tx:
                _, planned = merge_plan.plan_groups(tx, tenant_id, some, terms, fewer=fewer)
            for each in planned:
                if each is not None:
                    plans.append(each)
                    days = merge_plan.list_affected_days(each)
                    fewer.update(days)
                    gone |= set(each.taken_ids) if days else set()
        if found.finished or len(plans) >= limit or time.monotonic() >= until:
            return RunPreview(plans[:limit], looked_at, clusters, found.finished and len(plans) <= limit)


def _without_merged(group: Group, gone: set[UUID]) -> Group | None:
    """Return a group without the memories that an earlier slice of the dry run would have merged."""
    ids = [memory_id for memory_id in group.ids if memory_id not in gone]
    return replace(group, ids=ids) if len(ids) > 1 else None
