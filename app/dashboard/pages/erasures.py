"""Subject pages: data counts, exports, and erasures from preview to report."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import StreamingResponse

from app.api.http.cursors import ID, TIMED
from app.api.http.page_headers import HEADERS
from app.api.http.path_ids import ErasureId, ExportId
from app.dashboard import rendering
from app.dashboard.access import Action, Guarding, PrivacyViewer, require_action
from app.dashboard.actors import Actors
from app.dashboard.forms import read_as, read_day
from app.dashboard.rendering import redirect_back
from app.domain.privacy.case_details import (
    CASE_REFERENCE_MAX_CHARACTERS,
    CONTROLLER_MAX_CHARACTERS,
    LEGAL_BASIS_MAX_CHARACTERS,
)
from app.domain.privacy.documents import report_page
from app.domain.privacy.documents.report_counts import count_outcomes
from app.domain.privacy.erasure import MentionReview, NewErasure, requested_scope
from app.domain.privacy.export import NewExport
from app.domain.privacy.legal_deadlines import GRACE_DAYS, GRACE_DAYS_MAX
from app.domain.privacy.legal_hold import HOLD_GROUNDS
from app.domain.privacy.subject_names import has_other_encoding
from app.services.erasure import mentions, requests
from app.services.erasure.report import read_grace_end, read_report
from app.services.erasure.requests import ErasureOptions
from app.services.memories import subjects
from app.services.privacy import (
    deadlines,
    document_texts,
    export_archive,
    export_requests,
    request_log,
    retained_texts,
    rights_overview,
)
from app.store.erasure.requests import Erasure

PAGE: Final = 50
_CASE: Final = ("controller", "case_reference", "legal_basis")

router = APIRouter(prefix="/privacy")

Asking = Annotated[Action, Depends(require_action("privacy", asks_why=False))]

_DIGEST: Final = base64.b64encode(hashlib.sha256(report_page.STYLE.encode()).digest()).decode()
REPORT_HEADERS: Final = HEADERS | {
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{_DIGEST}'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'"
}


@router.get("/subjects")
def show_form(viewer: PrivacyViewer, request: Request, cursor: str | None = None) -> Response:
    """Show the empty form and a page of subjects; cursors contain no names."""
    found = subjects.list_subjects(viewer.tenant_id, ID.decode(cursor), PAGE)
    following = ID.encode(found.following)
    return rendering.page(
        request, viewer, "privacy/subject", subject=None, carried=None, known=found, following=following
    )


@router.post("/subjects")
def show_subject(acting: Asking, request: Request) -> Response:
    """Show a subject's data and preview an erasure. The subject is posted, so that it appears in no URL."""
    given = read_as(NewErasure, {name: acting.form.get(name, "") for name in ("subject", "request_id")})
    carried = None if given.request_id is None else request_log.get(acting.tenant_id, given.request_id)
    answered_by_erasure = carried is not None and carried.nature == "erasure"
    asked = ErasureOptions(requested_scope(given), request_id=given.request_id if answered_by_erasure else None)
    new, matching, found_holds = requests.preview(acting.tenant_id, asked)
    near = subjects.find_near(acting.tenant_id, given.subject)
    return rendering.page(
        request,
        acting.viewer,
        "privacy/subject",
        subject=given.subject,
        carried=carried,
        counts=subjects.get(acting.tenant_id, given.subject or ""),
        matching=matching,
        holds=found_holds,
        near=near,
        spellings=subjects.find_other_spellings(acting.tenant_id, given.subject) if near is None else [],
        encodings={each.subject for each in near or () if has_other_encoding(given.subject or "", each.subject)},
        basis_max=LEGAL_BASIS_MAX_CHARACTERS,
        controller_max=CONTROLLER_MAX_CHARACTERS,
        case_max=CASE_REFERENCE_MAX_CHARACTERS,
        grounds=HOLD_GROUNDS,
        dates={new.kind: new}
        if answered_by_erasure
        else deadlines.preview_deadlines(acting.tenant_id, new.requested_at),
        grace=GRACE_DAYS,
        grace_max=GRACE_DAYS_MAX,
    )


@router.get("/erasures")
def list_erasures(
    viewer: PrivacyViewer, request: Request, cursor: str | None = None, *, every: bool = False
) -> Response:
    """List requested erasures, newest first; with `every`, include deletions of single memories."""
    place = TIMED.decode(cursor)
    if every:
        found = requests.page(viewer.tenant_id, None, place, PAGE)
    else:
        found = rights_overview.list_requested(viewer.tenant_id, place, PAGE)
    return rendering.page(
        request, viewer, "privacy/erasures", erasures=found, following=TIMED.encode(found.following), every=every
    )


@router.post("/erasures")
def erase(acting: Guarding) -> Response:
    """Request an erasure: hide the subject's data now and erase it after the grace period."""
    days = acting.form.get("grace_days", "").strip()
    fields: dict[str, Any] = {name: acting.form.get(name, "") for name in ("subject", "kind", "request_id", *_CASE)}
    fields |= {"reason": acting.reason, "received_at": read_day(acting.form, "received")}
    given = read_as(NewErasure, {**fields, "grace_days": int(days) if days.isdecimal() else days})
    retained_texts.check_texts(acting.tenant_id, given.subject, reason=acting.reason)
    asked = requests.read_options(given)
    _record_request(acting, "request_erasure", given)
    new = requests.request(acting.tenant_id, asked, acting.key_id)
    return redirect_back(f"/privacy/erasures/{new.erasure_id}", "erasing")


def _record_request(acting: Action, act: str, given: NewErasure | NewExport) -> None:
    if given.request_id is None:
        acting.record(act, given.kind or "")
    else:
        acting.record_on(act, given.request_id, request_log.get)


@router.get("/erasures/{erasure_id}")
def show_erasure(viewer: PrivacyViewer, request: Request, erasure_id: ErasureId) -> Response:
    """Show the progress of an erasure: found and removed rows by step, and its passes if legal holds delayed it."""
    found = requests.get(viewer.tenant_id, erasure_id)
    done = {each["step"]: each for each in found.executed}
    left = (found.report or {}).get("left") or {}
    passes = [
        {**each, "finished_at": datetime.fromisoformat(each["finished_at"])}
        for each in (found.report or {}).get("passes", ())
    ]
    ended = read_grace_end(viewer.tenant_id, found)
    logged = request_log.find(viewer.tenant_id, found.erasure_id)
    partial_sent_at = logged.partial_sent_at if logged else None
    report = found.report and found.report | {"status": found.status}
    return rendering.page(
        request,
        viewer,
        "privacy/erasure",
        erasure=found,
        done_steps=done,
        basis=found.legal_basis and report_page.describe_basis(found.kind, found.legal_basis, document_texts.read()),
        held=requests.find_held(viewer.tenant_id, [found.erasure_id]).get(found.erasure_id),
        left=left,
        passes=passes,
        ended=ended,
        partial_sent_at=partial_sent_at,
        counts=report and count_outcomes(report),
        deadline_note=_describe_deadline(found, partial_sent_at),
        days_left=None if logged is None else deadlines.days_left(logged, datetime.now(UTC)),
        mentions=mentions.list_mentions(viewer.tenant_id, found.erasure_id) if report else [],
        records=document_texts.read(),
    )


def _describe_deadline(erasure: Erasure, partial_sent_at: datetime | None) -> str:
    """Return whether the legal deadline of an erasure was met, and by which answer.

    Empty if there is no deadline, the erasure is cancelled, or the request isn't answered yet.
    """
    if erasure.due_at is None or erasure.cancelled_at is not None:
        return ""
    if partial_sent_at is not None:
        return (
            "met by the partial answer" if partial_sent_at <= erasure.due_at else "missed: the partial answer was late"
        )
    if erasure.verified_at is None:
        return ""
    return "met" if erasure.verified_at <= erasure.due_at else "missed: completed late"


@router.post("/erasures/{erasure_id}/mentions")
def review_mention(acting: Guarding, erasure_id: ErasureId) -> Response:
    """Redact a text that refers to the erased person, or keep one that refers to another person."""
    number = acting.form.get("number", "")
    decision = "redact" if acting.form.get("decision") == "redact" else "keep"
    given = read_as(MentionReview, {decision: [int(number) if number.isdecimal() else number]})
    acting.record_on(f"{decision}_mention", erasure_id, requests.get)
    mentions.review(acting.tenant_id, erasure_id, given, acting.key_id)
    return redirect_back(f"/privacy/erasures/{erasure_id}", "reviewed")


@router.get("/erasures/{erasure_id}/report")
def show_report(viewer: PrivacyViewer, erasure_id: ErasureId) -> Response:
    """Return the printable report; its Content-Security-Policy allows only its own style, by digest."""
    found, actors = read_report(viewer.tenant_id, erasure_id), Actors(viewer.tenant_id)
    found["requested_by"] = actors.describe(found["requested_by"])
    for text in found["operator_texts"]:
        text["by"] = text["by"] and actors.describe(text["by"])
    if found["grace_ended"]:
        found["grace_ended"]["by"] = actors.describe(found["grace_ended"]["by"])
    page = report_page.render_report(found, document_texts.read())
    return Response(page, media_type="text/html", headers=REPORT_HEADERS)


@router.post("/erasures/{erasure_id}/cancel")
def cancel_erasure(acting: Guarding, erasure_id: ErasureId) -> Response:
    """Cancel an erasure and restore its hidden memories."""
    acting.record_on("cancel_erasure", erasure_id, requests.get)
    requests.cancel(acting.tenant_id, erasure_id, acting.key_id)
    return redirect_back(f"/privacy/erasures/{erasure_id}", "cancelled")


@router.post("/erasures/{erasure_id}/finish")
def start_erasure_now(acting: Guarding, erasure_id: ErasureId) -> Response:
    """Start an erasure before its grace period ends, or continue an interrupted one."""
    acting.record_on("finish_erasure", erasure_id, requests.get)
    rights_overview.start_now(acting.tenant_id, erasure_id)
    return redirect_back(f"/privacy/erasures/{erasure_id}", "finishing")


@router.get("/exports")
def list_exports(viewer: PrivacyViewer, request: Request, cursor: str | None = None) -> Response:
    """List exports, newest first."""
    found = export_requests.list_exports(viewer.tenant_id, TIMED.decode(cursor), PAGE)
    return rendering.page(request, viewer, "privacy/exports", exports=found, following=TIMED.encode(found.following))


@router.post("/exports")
def create_export(acting: Guarding) -> Response:
    """Request an export, which a job creates."""
    names = ("subject", "kind", "law", "request_id", "controller", "case_reference")
    fields = {name: acting.form.get(name, "") for name in names}
    fields |= {"reason": acting.reason, "received_at": read_day(acting.form, "received")}
    given = read_as(NewExport, fields)
    retained_texts.check_texts(acting.tenant_id, given.subject, reason=acting.reason)
    _record_request(acting, "request_export", given)
    export_requests.request_export(acting.tenant_id, given, acting.key_id)
    return redirect_back("/privacy/exports", "exporting")


@router.post("/exports/{export_id}/file")
def download_export(acting: Guarding, export_id: ExportId) -> Response:
    """Return the zip file. This is a POST because the download is recorded in the audit log."""
    acting.record_on("fetch_export", export_id, export_requests.get)
    made = export_archive.stream_archive(acting.tenant_id, export_id, acting.key_id)
    named = {"content-disposition": f'attachment; filename="ebbing-export-{export_id}.zip"'}
    return StreamingResponse(made, media_type="application/zip", headers=named)
