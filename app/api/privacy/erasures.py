"""`/v1/privacy/erasures`: somebody's data, or some of it, hidden at once and erased everywhere later."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Response

from app.api.http import shapes
from app.api.http.auth import Caller, needs
from app.api.http.body import body_of, decode
from app.domain.privacy.erasure import NewErasure, scope_of
from app.domain.privacy.report_page import page as page_of
from app.services.erasure import erasure_reports, erasures
from app.services.erasure.erasures import Asked
from app.store.erasure.erasures import Erasure

router = APIRouter(prefix="/v1/privacy/erasures", tags=["privacy"])

PAGE_MAX = 500

Guardian = Annotated[Caller, Depends(needs("privacy"))]
Form = Literal["json", "html"]
_INERT = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
StatusName = Literal["grace", "running", "held", "verified", "cancelled"]


@router.post(
    "",
    summary="Erase a person's data, or some of it",
    status_code=202,
    responses={200: {"description": "With `dry_run`: how many memories it would be of, and its dates"}},
)
def request(caller: Guardian, body: Annotated[bytes, Depends(body_of)]) -> Response:
    """It is in no search, list or read any more when this is answered, and can be cancelled until `erase_after`.

    Then it is erased from every store, what is under a legal hold left out until that is released. With `dry_run`,
    200 and how many memories it would be of.
    """
    given = decode(body, NewErasure)
    asked = Asked(scope_of(given), given.kind, given.grace_days, given.reason)
    if given.dry_run:
        new, matching = erasures.preview(caller.tenant_id, asked)
        clocks = {"due_at": new.due_at, "erase_after": new.erase_after}
        return shapes.answer({"memories": matching.memories, "held": matching.held} | clocks)
    return shapes.answer(shown(erasures.request(caller.tenant_id, asked, caller.key_id)), 202)


@router.get("", summary="List erasures, those requested last first")
def page(
    caller: Guardian,
    *,
    status: StatusName | None = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50,
    cursor: str | None = None,
) -> Response:
    """By cursor; of one status where it is given."""
    found = erasures.page(caller.tenant_id, status, shapes.place_in_cursor(cursor), limit)
    following = shapes.cursor_at(found[-1].requested_at, found[-1].erasure_id) if len(found) == limit else None
    return shapes.answer({"erasures": [shown(each) for each in found], "next_cursor": following})


@router.get("/{erasure_id}", summary="One erasure")
def get(caller: Guardian, erasure_id: str) -> Response:
    """How far it is: its plan and what is done of it, and its report once it is verified."""
    return shapes.answer(shown(erasures.get(caller.tenant_id, shapes.id_named(erasure_id, "erasure"))))


@router.get("/{erasure_id}/report", summary="The report of an erasure")
def report(caller: Guardian, erasure_id: str, as_form: Annotated[Form, Query(alias="format")] = "json") -> Response:
    """Every store with what was found, removed and left, what was kept and why, both clocks, recipients and backups.

    `format=html` gives a page to print. 409 until it is verified, or done but for what a legal hold is on.
    """
    found = erasure_reports.report(caller.tenant_id, shapes.id_named(erasure_id, "erasure"))
    if as_form == "json":
        return shapes.answer(found)
    return Response(page_of(found), media_type="text/html", headers=_INERT)


@router.post("/{erasure_id}/cancel", summary="Cancel an erasure in its grace")
def cancel(caller: Guardian, erasure_id: str) -> Response:
    """All that it has hidden comes back; 409 once its grace is over."""
    return shapes.answer(
        shown(erasures.cancel(caller.tenant_id, shapes.id_named(erasure_id, "erasure"), caller.key_id))
    )


def shown(each: Erasure) -> dict[str, Any]:
    """An erasure as callers see it."""
    by = each.scope.given()
    return {
        "erasure_id": each.erasure_id,
        "kind": each.kind,
        "status": each.status,
        "subject": by.pop("subject", None),
        "ids": by.pop("memory_ids", None),
        "thread": by.pop("thread", None),
        "filter": by or None,
        "reason": each.reason,
        "hidden": each.hidden,
        "requested_at": each.requested_at,
        "requested_by": each.requested_by,
        "due_at": each.due_at,
        "erase_after": each.erase_after,
        "started_at": each.started_at,
        "finished_at": each.finished_at,
        "verified_at": each.verified_at,
        "cancelled_at": each.cancelled_at,
        "plan": each.plan,
        "executed": each.executed,
        "report": each.report,
    }
