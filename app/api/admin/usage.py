"""`/v1/usage`: model usage, costs and the remaining budget."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Response

from app.api.http import responses
from app.api.http.auth import Maintainer
from app.api.http.request_body import DATED
from app.domain.policy.budget import BudgetState, Limits, remaining
from app.errors import NotAllowed
from app.services.tenants import budget
from app.services.tenants.budget import CostReport

router = APIRouter(tags=["usage"])

ADMIN = "admin"

Day = Annotated[date, DATED]
From = Annotated[
    Day | None,
    Query(alias="from", description="First day (UTC), at most 366 days before the last one. Default: 30 days ago."),
]
To = Annotated[Day | None, Query(description="Last day (UTC). Default: today.")]
TenantId = Annotated[UUID | None, Query(description="Tenant id; other tenants require the scope `admin`.")]


@router.get("/v1/usage", summary="Model usage by day, purpose, host and model")
def used(
    caller: Maintainer,
    from_: From = None,
    to: To = None,
    tenant_id: TenantId = None,
) -> Response:
    """Return usage and costs, oldest day first, and today's budget.

    `usage` has a row for each day, purpose (`score`, `embed`, `query`, `rerank`, `summarise`, `self_test`,
    `contradict`), host and model. `today` has the state of the budget (`ok`, `soft`, `hard`), its limits and the
    remaining amounts.

    Costs use the currency of the operator's prices; a cost is null if any part of it is unknown because a model has no
    price. A null limit means no limit. The totals of all tenants, `total_tokens` and `total_cost`, are shown only to
    keys with the scope `admin`.
    """
    is_admin = ADMIN in caller.scopes
    if tenant_id not in {None, caller.tenant_id} and not is_admin:
        raise NotAllowed(f"usage of another tenant requires a key with the scope {ADMIN!r}")
    found = budget.report_costs(tenant_id or caller.tenant_id, from_, to)
    return responses.answer(
        {"usage": [asdict(row) for row in found.rows], "today": _render_today(found, is_admin=is_admin)}
    )


def _render_today(found: CostReport, *, is_admin: bool) -> dict[str, Any]:
    """Return today's budget. Callers who aren't admins see the state of the total budget only if it blocks them."""
    own = found.standing.own
    state = found.state if is_admin or found.state is BudgetState.HARD else found.own_state
    return {
        "tokens": own.tokens,
        "cost": own.known_cost,
        "state": state,
        "limits": _render_limits(found.standing.limits, is_admin=is_admin),
        "left": _render_limits(remaining(found.standing), is_admin=is_admin),
    }


def _render_limits(limits: Limits, *, is_admin: bool) -> dict[str, float | None]:
    return {name: limit for name, limit in asdict(limits).items() if is_admin or not name.startswith("total_")}
