"""`/v1/consolidation`, `/v1/maintenance/consolidate` and `/v1/memories/{id}/lineage`: merges and their lineage."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import msgspec
from fastapi import APIRouter, Response

from app.api.http import responses
from app.api.http.auth import Maintainer, Reader
from app.api.http.cursors import Paged
from app.api.http.path_ids import MemoryId, MergeId
from app.api.maintenance.maintenance import SelfTest, add_start
from app.domain.consolidation.parameters import Level
from app.services.consolidation import approval, consolidation_run, merge_log, merge_undo
from app.services.consolidation.merge_log import MergeWithMemories
from app.services.consolidation.merge_plan import GroupPlan
from app.services.jobs import queue
from app.store.consolidation.consolidation_runs import ConsolidationRun
from app.store.consolidation.merges import Status

router = APIRouter(prefix="/v1", tags=["consolidation"])

GROUPS_MAX = 1000


class Consolidate(SelfTest, forbid_unknown_fields=True, frozen=True):
    """Options of a consolidation run.

    Attributes:
        dry_run: Only list the groups with the planned action and its reason; no model is called.
        as_of: Evaluate as of this time; default now. Future times require `dry_run`.
        level: Strength of the reduction; default set by the policy.
        limit: Maximum number of groups in a dry run, 1 to 1,000.
    """

    level: Level | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=GROUPS_MAX)] = 100


def _groups(tenant_id: UUID, wanted: Consolidate) -> dict[str, Any]:
    found = consolidation_run.preview_run(tenant_id, wanted.as_of, wanted.level, wanted.limit)
    counts = {"looked_at": found.looked_at, "clusters": found.clusters}
    changes = [_render_plan(plan) for plan in found.plans]
    return {"changes": changes, "counts": counts, "complete": found.is_complete, "next_cursor": None}


add_start(router, "/maintenance/consolidate", consolidation_run.KIND, Consolidate, _groups, "start")


@router.get("/consolidation/runs", summary="List consolidation runs, newest first")
def runs(caller: Maintainer, wanted: Paged) -> Response:
    """Return a page of runs. `reduction` is the share by which summaries are shorter than their source memories."""
    return responses.page("runs", merge_log.list_runs(caller.tenant_id, *wanted), _run)


@router.get("/consolidation/merges", summary="List merges, newest first")
def page(caller: Maintainer, wanted: Paged, status: Status | None = None) -> Response:
    """Return a page of merges; `status=waiting` selects those waiting for approval."""
    return responses.page("merges", merge_log.list_merges(caller.tenant_id, status, *wanted), _merge)


@router.get("/consolidation/merges/{merge_id}", summary="Get a merge")
def get(caller: Maintainer, merge_id: MergeId) -> Response:
    """Return a merge and its memories: `source` memories are part of the summary, `kept` ones stay separate."""
    return responses.answer(_merge(merge_log.get(caller.tenant_id, merge_id)))


@router.get("/consolidation/merges/{merge_id}/preview", summary="Preview a merge: its summary and source texts")
def preview(caller: Maintainer, merge_id: MergeId) -> Response:
    """Return the texts of a merge.

    The summary of a waiting merge is generated for this response, possibly by a model, and not stored.
    """
    found = merge_log.preview_merge(caller.tenant_id, merge_id)
    summary = found.summary and responses.pick(found.summary, "text", "key_points", "method", "model")
    kept = set(found.kept)
    texts = [
        {"id": each.memory_id, "text": each.text, "tier": each.tier, "kept": each.memory_id in kept}
        for each in found.texts
    ]
    return responses.answer(
        {"id": found.merge.merge_id, "status": found.merge.status, "texts": texts, "summary": summary}
    )


@router.post("/consolidation/merges/{merge_id}/approve", summary="Approve a merge", status_code=202)
def approve(caller: Maintainer, merge_id: MergeId) -> Response:
    """Start a job that checks the merge again and applies it; 409 if the merge isn't waiting."""
    parameters = approval.job_parameters(caller.tenant_id, merge_id, caller.key_id)
    job_id = queue.create(caller.tenant_id, approval.KIND, parameters, lone=False, actor=caller.key_id)
    return responses.answer({"job_id": job_id}, 202)


@router.post("/consolidation/merges/{merge_id}/reject", summary="Reject a merge")
def reject(caller: Maintainer, merge_id: MergeId) -> Response:
    """Reject a merge; 409 if it isn't waiting. It is proposed again only with other memories or changed texts."""
    approval.reject_merge(caller.tenant_id, merge_id, caller.key_id)
    return responses.answer(_merge(merge_log.get(caller.tenant_id, merge_id)))


@router.post("/consolidation/merges/{merge_id}/undo", summary="Undo a merge")
def undo(caller: Maintainer, merge_id: MergeId) -> Response:
    """Delete the summary and reactivate its sources, or remove the links that the merge added.

    409 if the merge isn't done, a source is in cold storage, the summary or a source is under a legal hold, or the
    summary or all sources no longer exist.
    """
    merge_undo.undo_merge(caller.tenant_id, merge_id, caller.key_id)
    return responses.answer(_merge(merge_log.get(caller.tenant_id, merge_id)))


@router.get("/memories/{memory_id}/lineage", summary="Get the lineage of a memory")
def lineage(caller: Reader, memory_id: MemoryId) -> Response:
    """Return the merge that created the memory (`made_from`, null if a caller sent it) and merges that used it."""
    stored_id, found = merge_log.list_lineage(caller.tenant_id, memory_id)
    made = [_merge(shown) for shown in found if shown.merge.summary_id == stored_id]
    took = [_merge(shown) for shown in found if shown.merge.summary_id != stored_id]
    return responses.answer({"id": stored_id, "made_from": made[0] if made else None, "merged_into": took})


def _run(run: ConsolidationRun) -> dict[str, Any]:
    times = responses.pick(run, "started_by", "level", "as_of", "started_at", "finished_at")
    counts = responses.pick(run, "looked_at", "clusters", "linked", "merged", "summaries", "by_model", "waiting")
    return {"id": run.run_id, **times, **counts, "reduction": run.reduction}


def _merge(shown: MergeWithMemories) -> dict[str, Any]:
    merge = shown.merge
    before = merge.characters_before if merge.characters_after else 0
    return {
        "id": merge.merge_id,
        **responses.pick(merge, "run_id", "action", "status", "level", "cohesion", "summary_id", "method", "model"),
        **responses.pick(merge, "key_points", "is_stale", "created_at", "decided_at", "decided_by"),
        "reduction": 1 - merge.characters_after / before if before else None,
        "memories": [
            {"id": each.memory_id, "part": each.part, "text_version": each.text_version} for each in shown.ancestors
        ],
    }


def _render_plan(plan: GroupPlan) -> dict[str, Any]:
    taken = set(plan.taken_ids)
    return {
        **responses.pick(plan.verdict, "action", "waits", "level", "why"),
        "cohesion": plan.group.cohesion,
        "memories": [memory_id for memory_id in plan.group.ids if memory_id in taken],
        "kept": [memory_id for memory_id in plan.group.ids if memory_id not in taken],
        "text": plan.facts[plan.taken_places[0]].text,
    }
