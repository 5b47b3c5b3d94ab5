"""Costs page: model usage by day and purpose, and today's remaining budget."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Request, Response

from app.dashboard import rendering
from app.dashboard.access import Operating
from app.domain.policy.budget import BudgetState, DaySpending, budget_state, remaining
from app.services.monitoring import stats
from app.services.tenants import budget, usage_report
from app.settings import settings

router = APIRouter(prefix="/money")


@router.get("")
def page(viewer: Operating, request: Request, *, every: bool = False) -> Response:
    """Show the costs of the tenant, or of all tenants if an admin selects it."""
    every = every and viewer.is_admin
    found = usage_report.report_usage(viewer.tenant_id, every=every)
    report = found.report
    # Only admins see the total of all tenants; others learn of it once the total limit blocks them too.
    state = report.state if viewer.is_admin or report.state is BudgetState.HARD else report.own_state
    if every:
        total_only = replace(report.standing.limits, tokens=None, cost=None)
        standing = replace(report.standing, own=DaySpending(), limits=total_only)
        state = budget_state(standing, settings().budget_soft_share)
    return rendering.page(
        request,
        viewer,
        "money",
        found=found,
        every=every,
        state=state,
        spent=report.standing.own,
        limits=report.standing.limits,
        left=remaining(report.standing),
        has_models=bool(budget.list_models(settings())),
        agreements=stats.rating_agreement(viewer.tenant_id),
        remarks=budget.list_warnings(settings()) if viewer.is_admin else [],
    )
