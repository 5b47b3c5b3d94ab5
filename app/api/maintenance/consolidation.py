"""`/v1/consolidation`, `/v1/maintenance/consolidate`, `/v1/memories/{id}/lineage`: what was made of which memories."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Query, Response

from app.api.http import shapes
from app.api.http.auth import Caller, needs
from app.api.http.body import body_of, decode
from app.api.memories.memories import id_of
from app.domain.consolidation.parameters import Level
from app.domain.ingest.memory import check_moment
from app.services.consolidation import approving, consolidate, merges, undoing
from app.services.consolidation.grouping import Plan
from app.services.consolidation.merges import Shown
from app.services.jobs import jobs
from app.store.consolidation.consolidation_runs import Run
from app.store.consolidation.merges import Status

router = APIRouter(prefix="/v1", tags=["consolidation"])

PAGE_MAX = 500
GROUPS_MAX = 1000

Keeper = Annotated[Caller, Depends(needs("maintain"))]
Reader = Annotated[Caller, Depends(needs("read"))]
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]


class Consolidate(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What to consolidate, and whether anything is written.

    Attributes:
        dry_run: Only list what would become of which groups, and why; no model is asked.
        as_of: Now, where it is left out. One that is yet to come is for a dry run alone.
        level: How much shorter summaries shall be; left out, as the policy says.
        limit: Most groups of a dry run, 1 to 1,000.
    """

    dry_run: bool = False
    as_of: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    level: Level | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=GROUPS_MAX)] = 100


@router.post(
    "/maintenance/consolidate",
    summary="Merge what belongs together",
    status_code=202,
    responses={200: {"description": "With `dry_run`: the groups, what would become of each, and the first text"}},
)
def start(caller: Keeper, body: Annotated[bytes, Depends(body_of)]) -> Response:
    """A job that compares what is new with all there is: small groups are linked, larger ones summarised.

    Important memories, those never forgotten, held ones, those of the last days and one of each day stay as they are.
    """
    wanted = decode(body, Consolidate)
    if wanted.as_of is not None:
        check_moment(wanted.as_of, "as_of")
    if not wanted.dry_run:
        parameters = jobs.parameters_at(wanted.as_of) | ({} if wanted.level is None else {"level": wanted.level})
        job_id = jobs.create(caller.tenant_id, consolidate.KIND, parameters, actor=caller.key_id)
        return shapes.answer({"job_id": job_id}, 202)
    found = consolidate.preview(caller.tenant_id, wanted.as_of, wanted.level, wanted.limit)
    counts = {"looked_at": found.looked_at, "clusters": found.clusters}
    changes = [_planned(plan) for plan in found.plans]
    return shapes.answer({"changes": changes, "counts": counts, "complete": found.is_complete, "next_cursor": None})


@router.get("/consolidation/runs", summary="Runs of consolidation, newest first")
def runs(caller: Keeper, limit: Limit = 50, cursor: str | None = None) -> Response:
    """By cursor. `reduction` is the share by which summaries are shorter than what they are made of."""
    found = merges.runs(caller.tenant_id, shapes.place_in_cursor(cursor), limit)
    following = shapes.cursor_at(found[-1].started_at, found[-1].run_id) if len(found) == limit else None
    return shapes.answer({"runs": [_run(run) for run in found], "next_cursor": following})


@router.get("/consolidation/merges", summary="Merges, newest first")
def page(caller: Keeper, status: Status | None = None, limit: Limit = 50, cursor: str | None = None) -> Response:
    """By cursor; with `status=waiting` those that wait for somebody's yes."""
    found = merges.page(caller.tenant_id, status, shapes.place_in_cursor(cursor), limit)
    last = found[-1].merge if len(found) == limit else None
    following = shapes.cursor_at(last.created_at, last.merge_id) if last else None
    return shapes.answer({"merges": [_merge(shown) for shown in found], "next_cursor": following})


@router.get("/consolidation/merges/{merge_id}", summary="One merge")
def get(caller: Keeper, merge_id: str) -> Response:
    """A merge, and the memories that it took: `source` went into its summary, `kept` stays beside it."""
    return shapes.answer(_merge(merges.get(caller.tenant_id, shapes.id_named(merge_id, "merge"))))


@router.get("/consolidation/merges/{merge_id}/preview", summary="What a merge says, beside what its sources say")
def preview(caller: Keeper, merge_id: str) -> Response:
    """Of one that waits, the summary is made for this answer and stored nowhere; a model may be asked for it."""
    found = merges.preview(caller.tenant_id, shapes.id_named(merge_id, "merge"))
    summary = found.summary and {
        "text": found.summary.text,
        "key_points": found.summary.key_points,
        "method": found.summary.method,
        "model": found.summary.model,
    }
    kept = set(found.kept)
    texts = [
        {"id": each.memory_id, "text": each.text, "tier": each.tier, "kept": each.memory_id in kept}
        for each in found.texts
    ]
    return shapes.answer({"id": found.merge.merge_id, "status": found.merge.status, "texts": texts, "summary": summary})


@router.post("/consolidation/merges/{merge_id}/approve", summary="Agree to a merge", status_code=202)
def approve(caller: Keeper, merge_id: str) -> Response:
    """A job that carries it out, after a last look; 409 where it doesn't wait."""
    parameters = approving.parameters(caller.tenant_id, shapes.id_named(merge_id, "merge"), caller.key_id)
    job_id = jobs.create(caller.tenant_id, approving.KIND, parameters, lone=False, actor=caller.key_id)
    return shapes.answer({"job_id": job_id}, 202)


@router.post("/consolidation/merges/{merge_id}/reject", summary="Refuse a merge")
def reject(caller: Keeper, merge_id: str) -> Response:
    """Its memories aren't proposed again, unless with others or with other texts; 409 where it doesn't wait."""
    approving.reject(caller.tenant_id, shapes.id_named(merge_id, "merge"), caller.key_id)
    return shapes.answer(_merge(merges.get(caller.tenant_id, shapes.id_named(merge_id, "merge"))))


@router.post("/consolidation/merges/{merge_id}/undo", summary="Undo a merge")
def undo(caller: Keeper, merge_id: str) -> Response:
    """Its summary goes, and its sources are active again as they were; 409 where they are gone, held or cold."""
    undoing.undo(caller.tenant_id, shapes.id_named(merge_id, "merge"), caller.key_id)
    return shapes.answer(_merge(merges.get(caller.tenant_id, shapes.id_named(merge_id, "merge"))))


@router.get("/memories/{memory_id}/lineage", summary="What a memory was made of, and what was made of it")
def lineage(caller: Reader, memory_id: str) -> Response:
    """`made_from` is the merge that has made it, null for what a caller has sent; `merged_into` those that took it."""
    stored_id, found = merges.lineage(caller.tenant_id, id_of(memory_id))
    made = [_merge(shown) for shown in found if shown.merge.summary_id == stored_id]
    took = [_merge(shown) for shown in found if shown.merge.summary_id != stored_id]
    return shapes.answer({"id": stored_id, "made_from": made[0] if made else None, "merged_into": took})


def _run(run: Run) -> dict[str, Any]:
    return {
        "id": run.run_id,
        "started_by": run.started_by,
        "level": run.level,
        "as_of": run.as_of,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "looked_at": run.looked_at,
        "clusters": run.clusters,
        "linked": run.linked,
        "merged": run.merged,
        "summaries": run.summaries,
        "by_model": run.by_model,
        "waiting": run.waiting,
        "reduction": run.reduction,
    }


def _merge(shown: Shown) -> dict[str, Any]:
    merge = shown.merge
    before = merge.characters_before if merge.characters_after else 0
    return {
        "id": merge.merge_id,
        "run_id": merge.run_id,
        "action": merge.action,
        "status": merge.status,
        "level": merge.level,
        "cohesion": merge.cohesion,
        "summary_id": merge.summary_id,
        "method": merge.method,
        "model": merge.model,
        "key_points": merge.key_points,
        "is_stale": merge.is_stale,
        "reduction": 1 - merge.characters_after / before if before else None,
        "created_at": merge.created_at,
        "decided_at": merge.decided_at,
        "decided_by": merge.decided_by,
        "memories": [
            {"id": each.memory_id, "part": each.part, "text_version": each.text_version} for each in shown.ancestors
        ],
    }


def _planned(plan: Plan) -> dict[str, Any]:
    taken = set(plan.taken_ids)
    return {
        "action": plan.verdict.action,
        "waits": plan.verdict.waits,
        "level": plan.verdict.level,
        "cohesion": plan.group.cohesion,
        "memories": [memory_id for memory_id in plan.group.ids if memory_id in taken],
        "kept": [memory_id for memory_id in plan.group.ids if memory_id not in taken],
        "why": plan.verdict.why,
        "text": plan.facts[plan.taken[0]].text,
    }
