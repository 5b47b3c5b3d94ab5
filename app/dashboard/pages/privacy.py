"""Privacy page: open data-subject requests with their deadlines, and the actions on them."""

from __future__ import annotations

from typing import Final, get_args

from fastapi import APIRouter, Request, Response

from app.api.http.cursors import TIMED
from app.api.http.path_ids import RequestId
from app.dashboard import rendering
from app.dashboard.access import Action, Guarding, PrivacyViewer
from app.dashboard.forms import read_as, read_day
from app.dashboard.pages.erasures import REPORT_HEADERS
from app.dashboard.rendering import redirect_back
from app.domain.privacy.case_details import (
    CASE_REFERENCE_MAX_CHARACTERS,
    CONTROLLER_MAX_CHARACTERS,
    NOTE_MAX_CHARACTERS,
)
from app.domain.privacy.documents.letters import LetterKind, possible_letters
from app.domain.privacy.legal_deadlines import LAWS
from app.domain.privacy.requests import (
    BASIS_MAX_CHARACTERS,
    Denial,
    Extension,
    IdentityCheck,
    IdentityMethod,
    Manner,
    Nature,
    NewRequest,
    Notice,
)
from app.services.privacy import categories, request_log, rights_overview
from app.services.strength import current_policy

PAGE: Final = 50

router = APIRouter(prefix="/privacy")


@router.get("")
def show_overview(viewer: PrivacyViewer, request: Request) -> Response:
    """Show open requests, most urgent first, and statistics of the last 24 months."""
    return rendering.page(
        request,
        viewer,
        "privacy/overview",
        found=rights_overview.read_overview(viewer.tenant_id),
        limits=categories.category_limits(viewer.tenant_id),
        rules=current_policy.read(viewer.tenant_id).privacy,
        natures=get_args(Nature),
        manners=get_args(Manner),
        laws=LAWS,
        basis_max=BASIS_MAX_CHARACTERS,
        note_max=NOTE_MAX_CHARACTERS,
        controller_max=CONTROLLER_MAX_CHARACTERS,
        case_max=CASE_REFERENCE_MAX_CHARACTERS,
        methods=get_args(IdentityMethod),
        letters=possible_letters,
    )


@router.get("/log")
def list_requests(viewer: PrivacyViewer, request: Request, cursor: str | None = None) -> Response:
    """List all requests, latest receipt first."""
    found = request_log.list_requests(viewer.tenant_id, TIMED.decode(cursor), PAGE, is_open=False)
    following = TIMED.encode(found.following)
    return rendering.page(request, viewer, "privacy/log", requests=found, following=following, letters=possible_letters)


@router.get("/categories")
def show_categories(viewer: PrivacyViewer, request: Request) -> Response:
    """Count the memories of each category now."""
    return rendering.page(request, viewer, "privacy/categories", running=categories.count_categories(viewer.tenant_id))


@router.post("/requests")
def create_request(acting: Guarding) -> Response:
    """Record a request received through another channel."""
    fields = {name: acting.form.get(name, "") for name in ("nature", "law", "manner", "controller", "case_reference")}
    new = read_as(NewRequest, {**fields, "received_at": read_day(acting.form, "received")})
    acting.record("enter_request", new.nature)
    request_log.create(acting.tenant_id, new, acting.key_id)
    return redirect_back("/privacy", "entered")


@router.post("/requests/{request_id}/confirm")
def confirm_receipt(acting: Guarding, request_id: RequestId) -> Response:
    """Record that the requester was sent a confirmation of receipt."""
    acting.record_on("confirm_request", request_id, request_log.get)
    request_log.confirm_receipt(acting.tenant_id, request_id, acting.key_id)
    return redirect_back("/privacy", "confirmed")


@router.post("/requests/{request_id}/identity")
def check_identity(acting: Guarding, request_id: RequestId) -> Response:
    """Record a check of the requester's identity."""
    check = read_as(IdentityCheck, {name: acting.form.get(name, "") for name in ("method", "note")})
    acting.record_on("check_identity", request_id, request_log.get)
    request_log.check_identity(acting.tenant_id, request_id, check, acting.key_id)
    return redirect_back("/privacy", "identified")


@router.post("/requests/{request_id}/extend")
def extend_request(acting: Guarding, request_id: RequestId) -> Response:
    """Extend the legal deadline of a request."""
    fields = {
        "reason": acting.form.get("extension_reason", ""),
        "months": int(months) if (months := acting.form.get("months", "")).isdecimal() else months,
        "notified_at": read_day(acting.form, "notified"),
    }
    extension = read_as(Extension, fields)
    acting.record_on("extend_request", request_id, request_log.get)
    request_log.extend(acting.tenant_id, request_id, extension, acting.key_id)
    return redirect_back("/privacy", "extended")


def _read_notice(acting: Action) -> Notice:
    return read_as(Notice, {"sent_at": read_day(acting.form, "sent")})


@router.post("/requests/{request_id}/notice")
def record_notice(acting: Guarding, request_id: RequestId) -> Response:
    """Record that the notice of an extension was sent."""
    notice = _read_notice(acting)
    acting.record_on("record_notice", request_id, request_log.get)
    request_log.record_notice(acting.tenant_id, request_id, notice, acting.key_id)
    return redirect_back("/privacy", "noticed")


@router.post("/requests/{request_id}/partial")
def record_partial_answer(acting: Guarding, request_id: RequestId) -> Response:
    """Record that the partial answer was sent to a request for an erasure that a legal hold delays."""
    notice = _read_notice(acting)
    acting.record_on("record_partial_answer", request_id, request_log.get)
    request_log.record_partial_answer(acting.tenant_id, request_id, notice, acting.key_id)
    return redirect_back("/privacy", "partly_answered")


@router.get("/requests/{request_id}/letters/{letter}")
def show_letter(viewer: PrivacyViewer, request_id: RequestId, letter: LetterKind) -> Response:
    """Return an answer to a request as a printable page."""
    page = request_log.write_letter(viewer.tenant_id, request_id, letter, as_page=True).text
    return Response(page, media_type="text/html", headers=REPORT_HEADERS)


@router.post("/requests/{request_id}/deny")
def deny_request(acting: Guarding, request_id: RequestId) -> Response:
    """Deny a request with its legal basis."""
    basis = read_as(Denial, {"basis": acting.form.get("basis", "")}).basis
    acting.record_on("deny_request", request_id, request_log.get)
    request_log.answer_request(acting.tenant_id, request_id, "denied", basis, acting.key_id)
    return redirect_back("/privacy", "denied")


@router.post("/requests/{request_id}/complete")
def complete_request(acting: Guarding, request_id: RequestId) -> Response:
    """Record a request as completed."""
    acting.record_on("complete_request", request_id, request_log.get)
    request_log.answer_request(acting.tenant_id, request_id, "done", None, acting.key_id)
    return redirect_back("/privacy", "completed")
