"""Tenants page: compare tenants by backlog, and select the tenant to view."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request, Response

from app.dashboard import rendering
from app.dashboard.access import Viewer, require_viewer
from app.services.monitoring import tenant_comparison

NAME_MAX: Final = 200

router = APIRouter(prefix="/tenants")

Looking = Annotated[Viewer, Depends(require_viewer("admin"))]


@router.get("")
def list_tenants(
    viewer: Looking, request: Request, name: Annotated[str, Query(max_length=NAME_MAX, pattern=r"^[^\x00]*$")] = ""
) -> Response:
    """List tenants by longest backlog, or those whose name contains the search text."""
    words = name.strip()
    found = tenant_comparison.called(words) if words else tenant_comparison.waiting_longest()
    return rendering.page(
        request,
        viewer,
        "tenants",
        tenants=found,
        name=words,
        shown=tenant_comparison.SHOWN,
        compared=tenant_comparison.COMPARED,
    )
