"""`/v1/admin/tenants/{tenant_id}`: delete a tenant with everything that it has."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from app.api.http import responses
from app.api.http.auth import Admin, cache
from app.api.http.path_ids import TenantId
from app.api.privacy.erasures import INERT, Form
from app.domain.privacy.documents.report_page import render_report
from app.errors import Conflict, FieldError, Invalid
from app.services.erasure import tenant_deletion
from app.services.erasure.tenant_deletion import Deletion
from app.services.privacy import document_texts
from app.services.tenants import tenants

router = APIRouter(prefix="/v1/admin/tenants/{tenant_id}", tags=["admin"])


@router.delete(
    "",
    summary="Delete a tenant",
    status_code=202,
    responses={200: {"description": "With `dry_run`: what would be deleted. Otherwise: the tenant is being deleted"}},
)
def delete_tenant(
    caller: Admin,
    tenant_id: TenantId,
    name: Annotated[str | None, Query(max_length=tenants.NAME_MAX_CHARACTERS)] = None,
    grace_days: Annotated[int | None, Query(ge=0, le=30)] = None,
    *,
    dry_run: bool = False,
) -> Response:
    """Delete a tenant with everything that it has: memories, search indexes, cold storage, exports, keys and settings.

    `name` confirms the deletion: it must be the tenant's name. From the response on, the tenant's API keys are refused
    with 403, its queue accepts nothing, and its nights stop; its data is erased after the grace period (`grace_days`,
    default 30). Until then, `POST …/deletion/cancel` cancels the deletion, and the keys are accepted again. `id` is the
    id of the deletion; a repeated request returns the existing deletion, with 200. Legal holds in force block a
    deletion: 409 lists them. With `dry_run`, the response counts what would be deleted, by store and table.
    """
    if dry_run:
        found = tenant_deletion.preview(tenant_id, grace_days)
        shown = {"id": None, "tenant_id": tenant_id, "name": found.tenant.name, "status": found.tenant.status}
        return responses.answer(shown | responses.pick(found, "stores", "tables", "holds", "erase_after"))
    if name is None:
        raise Invalid(errors=[FieldError("name", "is missing: repeat the tenant's name to confirm its deletion")])
    if tenant_id == caller.tenant_id:
        raise Conflict("the key of this request belongs to the tenant: use an admin key of another tenant")
    known = tenant_deletion.get(tenant_id).erasure
    made = tenant_deletion.request(tenant_id, name, caller.key_id, grace_days)
    cache.forget(tenant_id)
    return responses.answer(_render(made), 202 if known is None else 200)


@router.get("/deletion", summary="Get the deletion of a tenant")
def get_deletion(_: Admin, tenant_id: TenantId) -> Response:
    """Return the state of a tenant's deletion: its dates, the plan, the completed steps and the report."""
    return responses.answer(_render(tenant_deletion.get(tenant_id)))


@router.get("/deletion/report", summary="Get the report of a tenant's deletion")
def get_report(_: Admin, tenant_id: TenantId, as_form: Form = "json") -> Response:
    """Return the data found, removed and left per store, and retained data with reasons.

    `format=html` returns a printable letter.

    409 until the deletion is verified.
    """
    found = tenant_deletion.read_report(tenant_id)
    if as_form == "json":
        return responses.answer(found)
    return Response(render_report(found, document_texts.read()), media_type="text/html", headers=INERT)


@router.post("/deletion/cancel", summary="Cancel the deletion of a tenant in its grace period")
def cancel_deletion(caller: Admin, tenant_id: TenantId) -> Response:
    """Cancel a deletion: the tenant's data is as before and its keys are accepted again; 409 after the grace period."""
    found = tenant_deletion.cancel(tenant_id, caller.key_id)
    cache.forget(tenant_id)
    return responses.answer(_render(found))


def _render(found: Deletion) -> dict[str, Any]:
    """Return a tenant's deletion as JSON; if there is none, `id` is None, and plan, steps and report are missing."""
    tenant, erasure = found.tenant, found.erasure
    shown = {"id": tenant.deletion_id, "tenant_id": tenant.tenant_id, "name": tenant.name, "status": tenant.status}
    dates = responses.pick(tenant, "created_at", "deleted_at") | {"erase_after": tenant.delete_after}
    if erasure is None:
        return shown | dates
    fields = ("requested_at", "requested_by", "started_at", "plan", "executed", "report")
    return shown | dates | responses.pick(erasure, *fields)
