"""`POST /v1/maintenance/…`: work on all of a tenant's memories, done by jobs."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Response

from app.api import shapes
from app.api.auth import Caller, needs
from app.api.body import body_of, decode
from app.errors import NotAllowed
from app.services import jobs, reembed, spaces

router = APIRouter(prefix="/v1/maintenance", tags=["maintenance"])


class Reembed(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What to move to the settings' embedding space.

    Attributes:
        dry_run: Only count the memories.
        every_tenant: All tenants that are in another space, instead of the caller's own; needs the scope `admin`.
    """

    dry_run: bool = False
    every_tenant: bool = False


@router.post(
    "/reembed",
    summary="Move to the settings' embedding model",
    status_code=202,
    responses={200: {"description": "With `dry_run`: how many memories would be embedded"}},
)
def start_reembed(
    caller: Annotated[Caller, Depends(needs("maintain"))], body: Annotated[bytes, Depends(body_of)]
) -> Response:
    """A job that embeds what lacks a vector of that model, and then searches by it; found meanwhile as before."""
    wanted = decode(body, Reembed)
    if wanted.every_tenant and "admin" not in caller.scopes:
        raise NotAllowed("every_tenant needs a key of the scope 'admin'")
    moving = spaces.tenants_elsewhere() if wanted.every_tenant else [caller.tenant_id]
    if wanted.dry_run:
        counts = {"memories": sum(map(reembed.lacking, moving)), "tenants": len(moving)}
        return shapes.answer({"changes": [], "counts": counts, "next_cursor": None})
    parameters = reembed.parameters()
    started = [jobs.create(tenant_id, reembed.KIND, parameters, lone=True) for tenant_id in moving]
    return shapes.answer({"job_ids": started} if wanted.every_tenant else {"job_id": started[0]}, 202)
