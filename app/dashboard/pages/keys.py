"""API keys page: the keys of the tenant with the source that each may give to memories, without their secrets."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request, Response

from app.api.http.cursors import KEY_ID
from app.dashboard import rendering
from app.dashboard.access import Viewer, require_viewer
from app.services.tenants import tenants

PAGE: Final = 50

router = APIRouter(prefix="/keys")


@router.get("")
def list_keys(
    viewer: Annotated[Viewer, Depends(require_viewer("admin"))], request: Request, cursor: str | None = None
) -> Response:
    """List the tenant's API keys, newest first, also revoked and expired ones: they may have written memories."""
    found = tenants.list_keys(viewer.tenant_id, KEY_ID.decode(cursor), PAGE)
    return rendering.page(request, viewer, "keys", keys=found, following=KEY_ID.encode(found.following))
