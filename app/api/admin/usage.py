"""`/v1/usage`: what models have cost, and what is left of the budget."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response

from app.api.http import shapes
from app.api.http.auth import Caller, needs
from app.api.http.body import DATED
from app.domain.policy.budget import Limits, State, left
from app.errors import NotAllowed
from app.services.tenants import budget
from app.services.tenants.budget import Report

router = APIRouter(tags=["usage"])

ADMIN = "admin"

Day = Annotated[date, DATED]
From = Annotated[
    Day | None, Query(alias="from", description="First day, in UTC; by default 30 days are shown, at most 366.")
]
To = Annotated[Day | None, Query(description="Last day, in UTC; by default today.")]
TenantId = Annotated[UUID | None, Query(description="Another tenant; needs the scope `admin`.")]


@router.get("/v1/usage", summary="What models have cost, by day, purpose, host and model")
def used(
    caller: Annotated[Caller, Depends(needs("maintain"))],
    from_: From = None,
    to: To = None,
    tenant_id: TenantId = None,
) -> Response:
    """What was spent, oldest day first, and how today's budget stands.

    `usage` has a row for each day, purpose (`score`, `embed`, `query`, `rerank`, `summarise`, `self_test`,
    `contradict`), host and model; `today` the state of the budget (`ok`, `soft`, `hard`), its limits and what is left
    of them.

    Money is in the unit of the operator's prices. It is null as soon as any part of it isn't known, since a model had
    no price. A limit that is null is none. What concerns all tenants together, `total_tokens` and `total_cost`, is
    shown to keys of the scope `admin` alone.
    """
    is_admin = ADMIN in caller.scopes
    if tenant_id not in {None, caller.tenant_id} and not is_admin:
        raise NotAllowed(f"another tenant's usage needs a key of the scope {ADMIN!r}")
    found = budget.report(tenant_id or caller.tenant_id, from_, to)
    return shapes.answer({"usage": [asdict(row) for row in found.rows], "today": _today(found, is_admin=is_admin)})


def _today(found: Report, *, is_admin: bool) -> dict[str, Any]:
    """Today's budget; to others than an admin without what all tenants have spent, as far as they can't feel it."""
    own = found.standing.own
    state = found.state if is_admin or found.state is State.HARD else found.own_state
    return {
        "tokens": own.tokens,
        "cost": own.known_cost,
        "state": state,
        "limits": _shown(found.standing.limits, is_admin=is_admin),
        "left": _shown(left(found.standing), is_admin=is_admin),
    }


def _shown(limits: Limits, *, is_admin: bool) -> dict[str, float | None]:
    return {name: limit for name, limit in asdict(limits).items() if is_admin or not name.startswith("total_")}
