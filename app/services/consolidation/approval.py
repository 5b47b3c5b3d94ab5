"""Approve or reject merges that await a decision; a job executes an approved merge after planning it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Final
from uuid import UUID

from app import queues
from app.domain.consolidation.group_types import Group, Summary
from app.domain.jobs import Job, Step
from app.domain.privacy.audit_chain import Detail
from app.errors import Conflict, require_found
from app.services.consolidation import consolidation_run, merge_execution, merge_plan
from app.services.consolidation.merge_plan import GroupPlan, RunTerms
from app.services.security import audit
from app.services.storage.memory_write import memory_write
from app.services.tiers import archive
from app.store.consolidation import consolidation_runs, merges
from app.store.consolidation.merges import Ancestor, Merge
from app.store.core import database

KIND: Final = "approve"
CHANGED: Final = "the memories have changed, and fewer than two of them may still be merged: reject the merge"


def job_parameters(tenant_id: UUID, merge_id: UUID, actor: str) -> dict[str, Any]:
    """Return the parameters of the job that executes an approved merge.

    Raises:
        NotFound: This tenant has no such merge.
        Conflict: The merge isn't waiting for a decision.
    """
    with database.tenant(tenant_id) as tx:
        _waiting(get_or_404(tx, tenant_id, merge_id))
    return {"merge_id": str(merge_id), "actor": actor}


def run_job_slice(job: Job) -> Step:
    """Execute an approved merge; repeat the slice if its memories changed while the summary was generated."""
    merge_id, actor = UUID(job.parameters["merge_id"]), str(job.parameters["actor"])
    with database.tenant(job.tenant_id) as tx:
        merge = get_or_404(tx, job.tenant_id, merge_id)
        if merge.status != "waiting":
            return Step(0, {}, finished=True, notes=("the merge no longer waits for approval",))
        plan = _plan(tx, job.tenant_id, merge)
    if plan is None:
        return Step(0, {}, finished=True, failure=CHANGED)
    [summarised] = consolidation_run.attach_summaries(job.tenant_id, [plan])
    basis = archive.current_basis(job.tenant_id)
    with memory_write(job.tenant_id, "tier", "merge.before_commit") as write:
        tx = write.tx
        terms, group = _terms(tx, merge), _group(tx, job.tenant_id, merge)
        era, [replanned] = merge_plan.plan_groups(tx, job.tenant_id, [group], terms, lock=True, agreed=True)
        merge = get_or_404(tx, job.tenant_id, merge_id, lock=True)
        if merge.status != "waiting":
            return Step(0, {}, finished=True, notes=("the merge no longer waits for approval",))
        if replanned is None or not replanned.is_as(plan):
            return Step(0, job.state, finished=False, notes=("the memories have changed: the merge is planned again",))
        current_group = replace(summarised, plan=replanned)
        counts, [summary] = merge_execution.write_groups(write, terms, [current_group], era, basis, "approved")
        record = merge_execution.build_merge(merge_id, merge.run_id, merge.created_at, current_group, summary)
        columns = {field.name: getattr(record, field.name) for field in fields(record) if field.name not in _KEPT}
        merges.update_merge(tx, job.tenant_id, merge_id, columns | {"decided_at": terms.as_of, "decided_by": actor})
        absent = _list_absent(tx, job.tenant_id, merge_id, replanned)
        merges.add_lineage(tx, job.tenant_id, [*merge_execution.list_parts([merge_id], [current_group]), *absent])
        consolidation_runs.count(tx, job.tenant_id, merge.run_id, {**counts, "waiting": -1})
        details: dict[str, Detail] = {"merge": str(merge_id), "merged": counts["merged"], "summaries": 1}
        write.audit("memories_merged", actor, ids=replanned.taken_ids, details=details)
    queues.nudge(queues.EMBED_MEMORIES)
    merge_execution.count_outcomes(counts)
    return Step(len(replanned.taken_places), {}, finished=True, counts=dict(counts))


_KEPT: Final = ("merge_id", "run_id", "created_at", "action", "cohesion", "decided_at", "decided_by")


def preview_approval(tenant_id: UUID, merge: Merge) -> tuple[Summary | None, list[UUID]]:
    """Return the summary that a waiting merge would get, and the ids of the memories that it would leave unmerged."""
    with database.tenant(tenant_id) as tx:
        plan = _plan(tx, tenant_id, merge)
        ids = _group(tx, tenant_id, merge).ids
    if plan is None:
        return None, ids
    [summarised] = consolidation_run.attach_summaries(tenant_id, [plan])
    source_ids = set(plan.taken_ids)
    return summarised.summary, [memory_id for memory_id in ids if memory_id not in source_ids]


def reject_merge(tenant_id: UUID, merge_id: UUID, actor: str) -> Merge:
    """Reject a waiting merge; its memories aren't proposed again until the group or one of the texts changes.

    Raises:
        NotFound: This tenant has no such merge.
        Conflict: The merge isn't waiting for a decision.
    """
    with database.tenant(tenant_id) as tx:
        merge = get_or_404(tx, tenant_id, merge_id, lock=True)
        _waiting(merge)
        decision: dict[str, Any] = {"status": "rejected", "decided_at": database.now(tx), "decided_by": actor}
        merges.update_merge(tx, tenant_id, merge_id, decision)
        audit.append(tx, tenant_id, "merge_rejected", actor, items=merge.sources, details={"merge": str(merge_id)})
        return get_or_404(tx, tenant_id, merge_id)


def get_or_404(tx: database.Transaction, tenant_id: UUID, merge_id: UUID, *, lock: bool = False) -> Merge:
    """Return a merge, locked if `lock`.

    Raises:
        NotFound: This tenant has no such merge.
    """
    return require_found(merges.get(tx, tenant_id, merge_id, lock=lock), "merge")


def _waiting(merge: Merge) -> None:
    if merge.status != "waiting":
        raise Conflict(f"only a waiting merge can be approved or rejected: this one is {merge.status}")


def _plan(tx: database.Transaction, tenant_id: UUID, merge: Merge) -> GroupPlan | None:
    group = _group(tx, tenant_id, merge)
    if len(group.ids) < 2:
        return None
    _, plans = merge_plan.plan_groups(tx, tenant_id, [group], _terms(tx, merge), agreed=True)
    return plans[0]


def _terms(tx: database.Transaction, merge: Merge) -> RunTerms:
    return RunTerms(database.now(tx), merge.level)


def _list_absent(tx: database.Transaction, tenant_id: UUID, merge_id: UUID, plan: GroupPlan) -> list[Ancestor]:
    """Return the memories of a proposed merge that the plan lacks, such as hidden ones, with `kept` as their part."""
    present = set(plan.group.ids)
    proposed = merges.list_ancestors(tx, tenant_id, [merge_id])
    return [ancestor._replace(part="kept") for ancestor in proposed if ancestor.memory_id not in present]


def _group(tx: database.Transaction, tenant_id: UUID, merge: Merge) -> Group:
    """Return the merge's source memories; memories that the merge leaves unmerged are omitted."""
    source_ids: Sequence[UUID] = [
        ancestor.memory_id
        for ancestor in merges.list_ancestors(tx, tenant_id, [merge.merge_id])
        if ancestor.part == "source"
    ]
    return Group(sorted(source_ids), merge.cohesion)
