"""Run consolidation: link or merge groups of similar memories that contain a new one.

New means new to consolidation: the memory became old enough, or was edited, since the previous run (see
`candidates`).

A run first refreshes stale summaries, then processes slices of new memories. The watermarks advance only at the end of
a slice. An interrupted slice is repeated: groups whose merges are already recorded are skipped.
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
from app.services.jobs import queue
from app.services.strength import current_policy
from app.services.strength.rebase import STEP_SECONDS, reference_time
from app.services.tenants import quota
from app.services.tiers import archive
from app.store.consolidation import consolidation_runs, growth, merge_candidates
from app.store.consolidation.consolidation_runs import Trigger
from app.store.consolidation.merge_candidates import CandidateMarks
from app.store.consolidation.merged_memories import LocalDate
from app.store.core import database
from app.store.jobs import schedules
from app.store.memories import tenant_counts
from app.store.tenants import policies

KIND: Final = "consolidate"
BY_SIZE: Final = "by_size"
"""Parameter of jobs that were started because of the tenant's size."""
SOURCES: Final = 500
"""Approximate maximum number of memories merged in one transaction."""
PAUSED: Final = "the policy has paused consolidation: the next run after the pause processes the remaining groups"
MODEL_SECONDS: Final = 20.0
"""Time limit for model calls for one transaction's groups.

The transaction stores the summaries before the model calls for the next transaction's groups start.
"""


def run_job_slice(job: Job) -> Step:
    """Run a few seconds of a run that was started by hand, or because of the tenant's size."""
    until = time.monotonic() + STEP_SECONDS
    level, by_size = job.parameters.get("level"), bool(job.parameters.get(BY_SIZE))
    return run_slice(
        job.tenant_id, reference_time(job), job.state, until, by_hand=not by_size, by_size=by_size, level=level
    )


def start_by_size() -> int:
    """Create a job for each tenant whose number of memories or storage requires a run (seed 004 §3.1).

    A tenant has at most one such run a day; like all jobs of the lane `maintain`, it may wait while ingest is behind.

    Returns:
        The number of tenants whose size requires a run. A tenant with an unfinished job gets no second one.
    """
    with database.drain() as tx:
        tenant_ids = growth.list_large(tx)
    started = 0
    for tenant_id in tenant_ids:
        with database.tenant(tenant_id) as tx:
            is_required = schedules.is_scheduled(tx, tenant_id) and _size_trigger(
                tx, tenant_id, policies.read_current(tx, tenant_id).consolidation
            )
        if is_required:
            queue.create(tenant_id, KIND, {BY_SIZE: True})
            started += 1
    return started


def run_slice(
    tenant_id: UUID,
    as_of: datetime | None,
    state: dict[str, Any],
    until: float,
    *,
    by_hand: bool = False,
    by_size: bool = False,
    level: Level | None = None,
) -> Step:
    """Start a run, or continue it from its saved state.

    The nightly run consolidates if the policy sets `at_night`. Otherwise it does so only if the tenant has too many
    active memories or is near its quota. If the policy pauses consolidation, a consolidation
    run in progress ends, unless it was started by hand; the next run finds the remaining groups.

    Args:
        as_of: Process memories up to this time; None for the time at which the run began.
        state: State returned by the previous slice; empty at first.
        until: Deadline on the monotonic clock; at least one transaction's worth of work is always done.
        by_hand: Whether the run was started manually.
        by_size: Whether the job was created because of the tenant's size; the run starts only if the size still
            requires a run.
        level: Compression level of the summaries; None for the policy's level.
    """
    if not state:
        return _start_run(tenant_id, as_of, level, by_hand=by_hand, by_size=by_size)
    run_id = UUID(state["run"])
    terms = RunTerms(datetime.fromisoformat(state["as_of"]), state["level"])
    if "rederive" in state:
        counts, next_id = summary_refresh.run_slice(tenant_id, run_id, UUID(state["rederive"]), until)
        next_state = {name: value for name, value in state.items() if name != "rederive"}
        next_state |= {} if next_id is None else {"rederive": next_id.hex}
        return Step(counts["summaries"], next_state, finished=False, counts=dict(counts))
    if not by_hand and current_policy.read(tenant_id).consolidation.paused:
        with database.tenant(tenant_id) as tx:
            consolidation_runs.finish_run(tx, tenant_id, run_id)
        return Step(0, state, finished=True, notes=(PAUSED,))
    return _slice(tenant_id, run_id, terms, state, until)


def _start_run(tenant_id: UUID, as_of: datetime | None, level: Level | None, *, by_hand: bool, by_size: bool) -> Step:
    rules = current_policy.read(tenant_id).consolidation
    with database.tenant(tenant_id) as tx:
        as_of = as_of or database.now(tx)
        trigger: Trigger | None = "hand" if by_hand else _trigger(tx, tenant_id, rules, by_size=by_size)
        if trigger is None:
            return Step(0, {}, finished=True)
        level = level or rules.level
        run_id = consolidation_runs.start_run(tx, tenant_id, uuid4(), trigger, level, as_of)
    state = {"run": str(run_id), "as_of": as_of.isoformat(), "level": level, "rederive": UUID(int=0).hex}
    return Step(0, state, finished=False)


def _trigger(tx: database.Transaction, tenant_id: UUID, rules: Consolidation, *, by_size: bool) -> Trigger | None:
    if rules.paused:
        return None
    return "night" if rules.at_night and not by_size else _size_trigger(tx, tenant_id, rules)


def _size_trigger(tx: database.Transaction, tenant_id: UUID, rules: Consolidation) -> Trigger | None:
    """Return why a tenant's size requires a run, or None.

    The result is None if the size requires no run, if consolidation is paused, or if a run started within the last day
    because of the tenant's size.
    """
    if rules.paused or consolidation_runs.has_recent_by_size(tx, tenant_id, database.now(tx)):
        return None
    counts = tenant_counts.read(tx, tenant_id)
    if counts.active > rules.memories_above:
        return "count"
    return "quota" if quota.get_usage(tx, tenant_id, counts).state != "below" else None


def _slice(tenant_id: UUID, run_id: UUID, terms: RunTerms, state: dict[str, Any], until: float) -> Step:
    """Process a slice of new memories, or the rest of an interrupted slice."""
    page = _find_groups(tenant_id, terms)
    tried = set(state.get("tried", ()))
    groups = [group for group in page.groups if group.ids[0].hex not in tried]
    basis = archive.current_basis(tenant_id)
    counts = Counter[str]()
    # A repeated slice finds fewer new memories: merged ones are no longer candidates.
    new = max(page.new, state.get("new", 0))
    for summarised, considered in write_groups(tenant_id, groups, terms):
        counts += merge_execution.write_merges(tenant_id, run_id, terms, summarised, basis) if summarised else Counter()
        tried |= {group.ids[0].hex for group in considered}
        if time.monotonic() >= until and len(tried) < len(page.groups):
            _nudge(counts)
            return Step(0, {**state, "tried": sorted(tried), "new": new}, finished=False, counts=dict(counts))
    failpoints.trigger("merge.before_marks")
    totals = Counter(looked_at=new, clusters=len(tried))
    with database.tenant(tenant_id) as tx:
        merge_candidates.write_marks(tx, tenant_id, page.marks)
        consolidation_runs.count(tx, tenant_id, run_id, totals)
        if page.finished:
            consolidation_runs.finish_run(tx, tenant_id, run_id)
    _nudge(counts)
    next_state = {name: value for name, value in state.items() if name not in ("tried", "new")}
    return Step(new, next_state, finished=page.finished, counts=dict(counts + totals))


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
    """Yield batches of groups, one per transaction of the caller.

    Each batch consists of the groups to change, with their summaries, and all groups considered.
    """
    for batch in _pieces(groups):
        with database.tenant(tenant_id) as tx:
            _, plans = merge_plan.plan_groups(tx, tenant_id, batch, terms)
        yield attach_summaries(tenant_id, [plan for plan in plans if plan is not None]), batch


def _pieces(groups: Sequence[Group]) -> Iterator[list[Group]]:
    batch: list[Group] = []
    for group in groups:
        batch.append(group)
        if sum(len(batched.ids) for batched in batch) >= SOURCES:
            yield batch
            batch = []
    if batch:
        yield batch


def attach_summaries(tenant_id: UUID, plans: Sequence[GroupPlan]) -> list[SummarisedGroup]:
    """Generate the summaries that the plans require; call this outside of transactions, since models may be slow."""
    requests = {
        position: SummaryRequest(plan.sources, plan.form, plan.verdict.level)
        for position, plan in enumerate(plans)
        if plan.form is not None and not plan.verdict.waits
    }
    written = summaries.summarise_all(tenant_id, list(requests.values()), MODEL_SECONDS) if requests else []
    by_position = dict(zip(requests, written, strict=True))
    failpoints.trigger("merge.after_summary")
    return [SummarisedGroup(plan, by_position.get(position)) for position, plan in enumerate(plans)]


@dataclass(frozen=True, slots=True)
class RunPreview:
    """The outcome of a dry run.

    Attributes:
        plans: Groups that a run would change, in order.
        looked_at: Number of new or changed memories.
        clusters: Number of groups that contain new or changed memories.
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
        as_of_time = as_of or database.now(tx)
        marks = merge_candidates.read_marks(tx, tenant_id)
    terms = RunTerms(as_of_time, level or current_policy.read(tenant_id).consolidation.level)
    plans: list[GroupPlan] = []
    merged_ids, removed_by_day = set[UUID](), Counter[LocalDate]()
    looked_at = clusters = 0
    while True:
        page = _find_groups(tenant_id, terms, marks)
        looked_at, clusters, marks = looked_at + page.new, clusters + len(page.groups), page.marks
        for batch in _pieces(
            [reduced for group in page.groups if (reduced := _without_merged(group, merged_ids)) is not None]
        ):
            with database.tenant(tenant_id) as tx:
                _, planned = merge_plan.plan_groups(tx, tenant_id, batch, terms, fewer=removed_by_day)
            for plan in planned:
                if plan is not None:
                    plans.append(plan)
                    days = merge_plan.list_affected_days(plan)
                    removed_by_day.update(days)
                    merged_ids |= set(plan.taken_ids) if days else set()
        if page.finished or len(plans) >= limit or time.monotonic() >= until:
            return RunPreview(plans[:limit], looked_at, clusters, page.finished and len(plans) <= limit)


def _without_merged(group: Group, gone: set[UUID]) -> Group | None:
    """Return a group without memories that an earlier slice would have merged; None if fewer than two are left."""
    ids = [memory_id for memory_id in group.ids if memory_id not in gone]
    return replace(group, ids=ids) if len(ids) > 1 else None
