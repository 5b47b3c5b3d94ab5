"""Privacy page: open data-subject requests with their deadlines, and the actions on them."""

from __future__ import annotations

from typing import Annotated, Final, get_args

from fastapi import APIRouter, Depends, Request, Response

from app.api.http import responses
from app.api.http.cursors import TIMED
from app.dashboard import rendering
from app.dashboard.access import Acting, Viewer, acts, sees
from app.dashboard.forms import read_as
from app.dashboard.rendering import back
from app.domain.privacy.clocks import LAWS
from app.domain.privacy.requests import BASIS_MAX_CHARACTERS, Denial, Manner, Nature, NewRequest
from app.services.privacy import categories, privacy_requests, rights

PAGE: Final = 50

router = APIRouter(prefix="/privacy")

Looking = Annotated[Viewer, Depends(sees("privacy"))]
Guarding = Annotated[Acting, Depends(acts("privacy"))]


@router.get("")
def page(viewer: Looking, request: Request) -> Response:
    """Show open requests, most urgent first, and statistics of the last 24 months."""
    return rendering.page(
        request,
        viewer,
        "privacy",
        found=rights.overview(viewer.tenant_id),
        limits=categories.limits(viewer.tenant_id),
        natures=get_args(Nature),
        manners=get_args(Manner),
        laws=LAWS,
        basis_max=BASIS_MAX_CHARACTERS,
    )


@router.get("/log")
def log(viewer: Looking, request: Request, cursor: str | None = None) -> Response:
    """List all requests, newest first."""
    found = privacy_requests.page(viewer.tenant_id, TIMED.decode(cursor), PAGE, is_open=False)
    return rendering.page(request, viewer, "privacy_log", requests=found, following=TIMED.encode(found.following))


@router.get("/categories")
def kept(viewer: Looking, request: Request) -> Response:
    """Count the memories of each category now."""
    return rendering.page(request, viewer, "privacy_categories", running=categories.running(viewer.tenant_id))


@router.post("/requests")
def enter(acting: Guarding) -> Response:
    """Record a request received through another channel."""
    day = acting.form.get("received", "")
    fields = {name: acting.form.get(name, "") for name in ("nature", "law", "manner")}
    new = read_as(NewRequest, {**fields, "received_at": f"{day}T00:00:00Z" if day else ""})
    acting.note("enter_request", new.nature)
    privacy_requests.create(acting.tenant_id, new)
    return back("/privacy", "entered")


@router.post("/requests/{request_id}/confirm")
def confirm(acting: Guarding, request_id: str) -> Response:
    """Record that receipt was confirmed to the requester."""
    which = responses.id_named(request_id, "request")
    acting.note("confirm_request", str(which))
    privacy_requests.confirm(acting.tenant_id, which)
    return back("/privacy", "confirmed")


@router.post("/requests/{request_id}/deny")
def deny(acting: Guarding, request_id: str) -> Response:
    """Deny a request with its legal basis."""
    which = responses.id_named(request_id, "request")
    basis = read_as(Denial, {"basis": acting.form.get("basis", "")}).basis
    acting.note("deny_request", str(which))
    privacy_requests.answer(acting.tenant_id, which, "denied", basis, acting.key_id)
    return back("/privacy", "denied")


@router.post("/requests/{request_id}/complete")
def complete(acting: Guarding, request_id: str) -> Response:
    """Record a request as completed."""
    which = responses.id_named(request_id, "request")
    acting.note("complete_request", str(which))
    privacy_requests.answer(acting.tenant_id, which, "done", None, acting.key_id)
    return back("/privacy", "completed")
