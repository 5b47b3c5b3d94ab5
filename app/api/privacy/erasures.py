"""`/v1/privacy/erasures`: hide matching memories at once and erase them everywhere after the grace period."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response

from app.api.http import responses
from app.api.http.auth import Guardian
from app.api.http.cursors import Paged
from app.api.http.path_ids import ErasureId
from app.api.http.request_body import json_body
from app.api.privacy.near_names import describe_names, warn_unknown
from app.domain.privacy.documents.report_page import render_report
from app.domain.privacy.erasure import MentionReview, NewErasure
from app.services.erasure import mentions, requests
from app.services.erasure.report import read_report
from app.services.erasure.requests import ErasureOptions
from app.services.privacy import document_texts, rights_overview
from app.store.erasure.holds_in_scope import HeldErasure
from app.store.erasure.requests import Erasure

router = APIRouter(prefix="/v1/privacy/erasures", tags=["privacy"])

Form = Annotated[Literal["json", "html"], Query(alias="format")]
INERT = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
StatusName = Literal["grace", "running", "held", "verified", "cancelled"]


@router.post(
    "",
    summary="Erase memories of a subject, a thread or a filter",
    status_code=202,
    responses={200: {"description": "With `dry_run`: the number of matching memories, and the dates"}},
)
def request(caller: Guardian, given: Annotated[NewErasure, Depends(json_body(NewErasure))]) -> Response:
    """Request an erasure. It hides matching memories before the response, and can be cancelled until `erase_after`.

    Afterwards they are erased from every store; memories under a legal hold are erased once it is released. With
    `dry_run`, the response is 200 with the number of matching memories, and in `already_hidden` the number of further
    ones that are already being deleted; of these, `hidden_held` are under legal hold and remain until its release.

    With `request_id`, the erasure carries out a request recorded with `POST /v1/privacy/requests`: it has the request's
    id, law, time of receipt, case details and deadline. 409 if the request already has an answer or an erasure. Without
    `request_id`, the request is recorded now; the legal deadline counts from `received_at`, the grace period always
    from now.

    `held` counts the memories under legal hold and `holds` lists the holds. If no stored memory has the subject,
    `warning` says so and `near` lists subjects with similar names. With `dry_run`, `other_spellings` lists subjects
    with the same name in another spelling or order, which neither this erasure nor an open one covers.
    """
    asked = requests.read_options(given)
    if given.dry_run:
        known = describe_names(caller.tenant_id, asked.scope.subject, to_erase=True)
        new, matching, found = requests.preview(caller.tenant_id, asked)
        clocks = {"received_at": new.arrived_at, **responses.pick(new, "requested_at", "due_at", "erase_after")}
        clocks |= responses.pick(new, "kind", "controller", "case_reference", "legal_basis")
        held = {"held": matching.held, "holds": [hold._asdict() for hold in found]}
        hidden = {"already_hidden": matching.hidden, "hidden_held": matching.hidden_held}
        return responses.answer(held | {"memories": matching.memories} | hidden | clocks | known)
    known = warn_unknown(caller.tenant_id, asked.scope.subject)
    new = requests.request(caller.tenant_id, asked, caller.key_id)
    return responses.answer(render_erasure(new) | describe_holds(caller.tenant_id, asked) | known, 202)


@router.get("", summary="List erasures, newest first")
def page(caller: Guardian, wanted: Paged, *, status: StatusName | None = None) -> Response:
    """Return a page of erasures, optionally with one status.

    `held` counts the hidden memories under legal hold and `holds` lists the holds.
    """
    found = requests.page(caller.tenant_id, status, *wanted)
    held = requests.find_held(caller.tenant_id, [each.erasure_id for each in found])
    return responses.page(
        "erasures", found, lambda each: render_erasure(each) | _render_held(held.get(each.erasure_id))
    )


@router.get("/{erasure_id}", summary="Get an erasure")
def get(caller: Guardian, erasure_id: ErasureId) -> Response:
    """Return the plan, the completed steps and, once verified, the report of an erasure.

    `held` counts the hidden memories under legal hold and `holds` lists the holds.
    """
    found = requests.get(caller.tenant_id, erasure_id)
    held = requests.find_held(caller.tenant_id, [found.erasure_id]).get(found.erasure_id)
    return responses.answer(render_erasure(found) | _render_held(held))


@router.get("/{erasure_id}/report", summary="Get the report of an erasure")
def report(caller: Guardian, erasure_id: ErasureId, as_form: Form = "json") -> Response:
    """Return rows found, removed and left per store, retained data with legal grounds, dates, recipients and backups.

    The figures sum over all passes; an erasure has several if legal holds delayed it. `format=html` returns a printable
    letter with a technical appendix. 409 until the erasure is verified, or complete except for legal holds.
    """
    found = read_report(caller.tenant_id, erasure_id)
    if as_form == "json":
        return responses.answer(found)
    return Response(render_report(found, document_texts.read()), media_type="text/html", headers=INERT)


@router.get("/{erasure_id}/mentions", summary="List texts that may mention an erased person")
def list_mentions(caller: Guardian, erasure_id: ErasureId) -> Response:
    """Return the texts of operators that contain a part of the erased person's name, as they are now, for review.

    Texts that contain the whole name were redacted by the erasure. `table` and `column` say where a text is stored;
    `text` is null once it was redacted or deleted. `more` counts further texts, which aren't listed. 409 until the
    erasure has a report.
    """
    found = mentions.list_mentions(caller.tenant_id, erasure_id)
    more = (requests.get(caller.tenant_id, erasure_id).report or {}).get("mentions") or {"more": 0}
    return responses.answer({"mentions": [each._asdict() for each in found], "more": more["more"]})


@router.post("/{erasure_id}/mentions", summary="Decide on texts that may mention an erased person")
def review_mentions(
    caller: Guardian, erasure_id: ErasureId, given: Annotated[MentionReview, Depends(json_body(MentionReview))]
) -> Response:
    """Redact the texts with the numbers in `redact`, and keep those in `keep`; the report states the decisions.

    A redaction replaces the whole text with a standard sentence and can't be undone.
    """
    found = mentions.review(caller.tenant_id, erasure_id, given, caller.key_id)
    return responses.answer({"mentions": [each._asdict() for each in found]})


@router.post("/{erasure_id}/cancel", summary="Cancel an erasure in its grace period")
def cancel(caller: Guardian, erasure_id: ErasureId) -> Response:
    """Cancel an erasure and restore its hidden memories; 409 after the grace period.

    If the erasure is the deletion of a single memory, the memory's id is accepted too.
    """
    return responses.answer(render_erasure(requests.cancel(caller.tenant_id, erasure_id, caller.key_id)))


@router.post("/{erasure_id}/finish", summary="End the grace period of an erasure now")
def finish(caller: Guardian, erasure_id: ErasureId) -> Response:
    """Start an erasure now, without the rest of its grace period; it can't be cancelled any more.

    If the erasure was interrupted, this call resumes it. The report states when the grace period ended and which API
    key ended it. Memories under a legal hold remain until its release. 409 if the erasure is finished, cancelled, or
    delayed by a legal hold.
    """
    found = requests.get(caller.tenant_id, erasure_id)
    return responses.answer(render_erasure(rights_overview.finish(caller.tenant_id, found.erasure_id, caller.key_id)))


def describe_holds(tenant_id: UUID, asked: ErasureOptions) -> dict[str, Any]:
    """Return the number of an erasure's memories under legal hold, and the holds, as JSON."""
    held, found = requests.find_holds(tenant_id, asked)
    return {"held": held, "holds": [hold._asdict() for hold in found]}


def _render_held(held: HeldErasure | None) -> dict[str, Any]:
    if held is None:
        return {"held": 0, "holds": []}
    return {"held": held.memories, "holds": [hold._asdict() for hold in held.holds]}


def render_erasure(each: Erasure) -> dict[str, Any]:
    """Return an erasure as JSON."""
    by = each.scope.conditions()
    return {
        "id": each.erasure_id,
        **responses.pick(each, "erasure_id", "kind", "status"),  # `erasure_id`: deprecated name of `id`
        "subject": by.pop("subject", None),
        "ids": by.pop("memory_ids", None),
        "thread": by.pop("thread", None),
        "filter": by or None,
        **responses.pick(each, "reason", "hidden", "requested_at", "requested_by", "due_at", "erase_after"),
        "received_at": each.arrived_at or each.requested_at,
        **responses.pick(each, "started_at", "finished_at", "verified_at", "cancelled_at"),
        **responses.pick(each, "controller", "case_reference", "legal_basis"),
        **responses.pick(each, "plan", "executed", "report"),
    }
