"""What models have cost: by day and by what they were asked for, and what is left of today's budget."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from app.dashboard import rendering
from app.dashboard.access import Viewer, sees
from app.domain.policy.budget import State, left
from app.services.tenants import budget, spending
from app.settings import settings

router = APIRouter(prefix="/money")

Looking = Annotated[Viewer, Depends(sees("maintain", "admin"))]


@router.get("")
def page(viewer: Looking, request: Request, *, every: bool = False) -> Response:
    """Of a tenant; of all of them where an admin asks for it."""
    every = every and viewer.is_admin
    found = spending.report(viewer.tenant_id, every=every)
    report = found.report
    # What all tenants have spent is an admin's to know; others hear of it when nothing is left for them either.
    state = report.state if viewer.is_admin or report.state is State.HARD else report.own_state
    return rendering.page(
        request,
        viewer,
        "money",
        found=found,
        every=every,
        state=state,
        spent=report.standing.own,
        limits=report.standing.limits,
        left=left(report.standing),
        remarks=budget.remarks(settings()) if viewer.is_admin else [],
    )
