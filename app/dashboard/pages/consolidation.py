"""Consolidation page: runs, merges and approvals, and proposed supersessions.

Texts of memories and summaries are shown only to keys with the scope `read`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fastapi import APIRouter, Request, Response

from app.api.http.cursors import TIMED
from app.api.http.path_ids import MergeId, SupersessionId
from app.dashboard import rendering
from app.dashboard.access import Action, AnyViewer, Maintaining, Writing
from app.dashboard.rendering import redirect_back
from app.domain.consolidation.parameters import KEPT_SHARES
from app.domain.ingest.sources import Writer
from app.errors import FieldError, Invalid
from app.services.consolidation import approval, consolidation_run, merge_log, merge_undo, supersession
from app.services.jobs import queue
from app.services.tenants import policy_versions
from app.services.tenants.policy_versions import RequestedChange

RUNS: Final = 14
WAITING: Final = 50
PAGE: Final = 25
PLACE: Final = "/consolidation"

STARTED_BY: Final[Mapping[str, str]] = {
    "night": "nightly",
    "count": "nightly (memory count)",
    "quota": "nightly (quota)",
    "hand": "manual",
}
ACTIONS: Final[Mapping[str, str]] = {
    "link": "links",
    "summary": "one summary",
    "support": "a summary, important memories kept separately",
    "narrative": "a narrative",
    "duplicates": "duplicates merged into one text",
}

router = APIRouter(prefix=PLACE)


@router.get("")
def show_runs(viewer: AnyViewer, request: Request, cursor: str | None = None) -> Response:
    """Show runs, merges waiting for approval, proposals and completed merges."""
    tenant_id = viewer.tenant_id
    held, following_policies, _ = policy_versions.list_in_force(tenant_id)
    done = merge_log.list_merges(tenant_id, "done", TIMED.decode(cursor), PAGE)
    waiting = merge_log.list_merges(tenant_id, "waiting", None, WAITING)
    return rendering.page(
        request,
        viewer,
        "consolidation",
        rules=held.era.policy.consolidation,
        policies=following_policies,
        runs=merge_log.list_runs(tenant_id, None, RUNS),
        waiting=waiting,
        such_as=merge_log.sample_texts(tenant_id, waiting) if viewer.may("read") else {},
        proposed=supersession.list_supersessions(tenant_id, "proposed", None, None, WAITING),
        done_merges=done,
        following=TIMED.encode(done.following),
        levels=list(KEPT_SHARES),
        started_by=STARTED_BY,
        actions=ACTIONS,
        most=WAITING,
        is_first=cursor is None,
    )


@router.get("/{merge_id}")
def show_merge(viewer: AnyViewer, request: Request, merge_id: MergeId, *, summary: bool = False) -> Response:
    """Show a merge; with `summary`, generate a preview of a waiting merge's summary, which is not stored."""
    shown = merge_log.get(viewer.tenant_id, merge_id)
    said = merge_log.preview_merge(viewer.tenant_id, merge_id, making=summary) if viewer.may("read") else None
    return rendering.page(
        request,
        viewer,
        "merge",
        merge=shown.merge,
        ancestors=shown.ancestors,
        texts={one.memory_id: one for one in said.texts} if said else {},
        said=said,
        asked=summary,
        actions=ACTIONS,
    )


@router.post("/run")
def start_run(acting: Maintaining) -> Response:
    """Start a manual run, even if consolidation is paused."""
    level = acting.form.get("level", "")
    if level and level not in KEPT_SHARES:
        raise Invalid(errors=[FieldError("level", f"must be one of {', '.join(KEPT_SHARES)}")])
    acting.record("consolidate", level)
    queue.create(acting.tenant_id, consolidation_run.KIND, {"level": level} if level else {}, actor=acting.key_id)
    return redirect_back(PLACE, "run")


@router.post("/pause")
def pause_nights(acting: Maintaining) -> Response:
    """Pause automatic consolidation through a new policy version."""
    acting.record("pause_consolidation")
    _set_paused(acting, paused=True)
    return redirect_back(PLACE, "paused")


@router.post("/resume")
def resume_nights(acting: Maintaining) -> Response:
    """Resume automatic consolidation through a new policy version."""
    acting.record("resume_consolidation")
    _set_paused(acting, paused=False)
    return redirect_back(PLACE, "resumed")


def _set_paused(acting: Action, *, paused: bool) -> None:
    policy_versions.write_change(
        acting.tenant_id, RequestedChange({"consolidation": {"paused": paused}}), acting.key_id
    )


@router.post("/supersessions/{supersession_id}/approve")
def approve_supersession(acting: Writing, supersession_id: SupersessionId) -> Response:
    """Approve a proposed supersession."""
    acting.record_on("approve_supersession", supersession_id, supersession.get)
    supersession.approve_supersession(acting.tenant_id, supersession_id, Writer(acting.key_id, "user"))
    return redirect_back(PLACE, "superseded")


@router.post("/supersessions/{supersession_id}/reject")
def reject_supersession(acting: Writing, supersession_id: SupersessionId) -> Response:
    """Reject a proposed supersession."""
    acting.record_on("reject_supersession", supersession_id, supersession.get)
    supersession.reject_supersession(acting.tenant_id, supersession_id, Writer(acting.key_id, "user"))
    return redirect_back(PLACE, "rejected")


@router.post("/{merge_id}/approve")
def approve_merge(acting: Maintaining, merge_id: MergeId) -> Response:
    """Start a job that checks the merge again and applies it."""
    acting.record_on("approve_merge", merge_id, merge_log.get)
    parameters = approval.job_parameters(acting.tenant_id, merge_id, acting.key_id)
    queue.create(acting.tenant_id, approval.KIND, parameters, lone=False, actor=acting.key_id)
    return redirect_back(PLACE, "approved")


@router.post("/{merge_id}/reject")
def reject_merge(acting: Maintaining, merge_id: MergeId) -> Response:
    """Reject a merge; its memories stay unchanged."""
    acting.record_on("reject_merge", merge_id, merge_log.get)
    approval.reject_merge(acting.tenant_id, merge_id, acting.key_id)
    return redirect_back(PLACE, "rejected")


@router.post("/{merge_id}/undo")
def undo_merge(acting: Maintaining, merge_id: MergeId) -> Response:
    """Undo a merge: delete its summary and reactivate its sources."""
    acting.record_on("undo_merge", merge_id, merge_log.get)
    merge_undo.undo_merge(acting.tenant_id, merge_id, acting.key_id)
    return redirect_back(PLACE, "undone")
