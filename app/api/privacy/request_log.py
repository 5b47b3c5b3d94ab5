"""`/v1/privacy/requests`: the log of data-subject requests, retained for 24 months, and its statistics."""

from __future__ import annotations

from dataclasses import asdict
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Response

from app.api.http import responses
from app.api.http.auth import Guardian
from app.api.http.cursors import Paged
from app.api.http.path_ids import MemoryId, RequestId
from app.api.http.request_body import json_body
from app.api.memories.memories import Moment
from app.api.privacy.erasures import INERT
from app.domain.privacy.documents.letters import LetterKind
from app.domain.privacy.requests import Denial, Extension, Ground, IdentityCheck, NewRequest, Notice, PrivacyRequest
from app.errors import FieldError, Invalid
from app.services.privacy import anonymisation, deadlines, request_log

router = APIRouter(prefix="/v1/privacy/requests", tags=["privacy"])
keeping = APIRouter(prefix="/v1/privacy/memories", tags=["privacy"])

YEAR = timedelta(days=365)
LetterForm = Annotated[Literal["text", "html"], Query(alias="format")]


@router.post("", summary="Record a request received through another channel", status_code=201)
def enter(caller: Guardian, given: Annotated[NewRequest, Depends(json_body(NewRequest))]) -> Response:
    """Record a request when it is received, such as a correction requested by mail.

    An erasure or export with this `request_id` carries the request out. Without `request_id`, it records a new request.
    """
    return responses.answer(_render(request_log.create(caller.tenant_id, given, caller.key_id)), 201)


@router.get("", summary="List requests, latest receipt first")
def page(caller: Guardian, wanted: Paged, *, only_open: bool = False) -> Response:
    """Return a page of requests with days left until their deadlines; `only_open` selects unanswered ones.

    Requests don't name their subject.
    """
    found = request_log.list_requests(caller.tenant_id, *wanted, is_open=only_open)
    return responses.page("requests", found, _render)


@router.get("/summary", summary="Summarise requests by nature and law")
def summary(caller: Guardian, *, after: Moment | None = None, before: Moment | None = None) -> Response:
    """Return the number of received, completed, denied and late requests, and median and mean response times in days.

    Covers requests received from `after` (default: one year before `before`) until `before` (default: now). Also
    returns the categories of stored memories.
    """
    for name, given in (("after", after), ("before", before)):
        if given is not None and not MINYEAR + 2 <= given.year < MAXYEAR:
            raise Invalid(errors=[FieldError(name, "is out of range")])
    until = before or datetime.now(UTC)
    since = after or until - YEAR
    return responses.answer(asdict(request_log.summarise_requests(caller.tenant_id, since, until)))


@router.get("/{request_id}", summary="Get a request")
def get(caller: Guardian, request_id: RequestId) -> Response:
    """Return a request with the days left until its deadline. Its erasure or export has the same id."""
    return responses.answer(_render(request_log.get(caller.tenant_id, request_id)))


@router.post("/{request_id}/confirm", summary="Record that receipt of a request was confirmed")
def confirm(caller: Guardian, request_id: RequestId) -> Response:
    """Record that receipt was confirmed to the requester; only the first confirmation counts. 409 if it is answered."""
    return responses.answer(_render(request_log.confirm_receipt(caller.tenant_id, request_id, caller.key_id)))


@router.post("/{request_id}/identity", summary="Record a check of the requester's identity")
def check_identity(
    caller: Guardian, request_id: RequestId, given: Annotated[IdentityCheck, Depends(json_body(IdentityCheck))]
) -> Response:
    """Record the method and time of a check, and the API key of this call; a later check replaces it.

    409 if the request is answered, 422 if the time is before the receipt of the request.

    The note is deleted when the request is answered.
    """
    return responses.answer(_render(request_log.check_identity(caller.tenant_id, request_id, given, caller.key_id)))


@router.post("/{request_id}/extend", summary="Extend the deadline of a request")
def extend(
    caller: Guardian, request_id: RequestId, given: Annotated[Extension, Depends(json_body(Extension))]
) -> Response:
    """Extend the legal deadline once: by up to two months (GDPR Art. 12(3)) or by 45 days (CCPA), counted from receipt.

    The deadline of an erasure moves too; its grace period doesn't. 409 if the request is answered, extended already or
    has no legal deadline; 422 if the notice was sent after the first deadline, or wasn't sent and the deadline has
    passed. With `dry_run`, nothing is stored, and the response has the new deadline. Record a notice that is sent later
    with `POST …/notice`.
    """
    return responses.answer(_render(request_log.extend(caller.tenant_id, request_id, given, caller.key_id)))


@router.post("/{request_id}/notice", summary="Record that the notice of an extension was sent")
def notice(
    caller: Guardian, request_id: RequestId, given: Annotated[Notice, Depends(json_body(Notice, is_optional=True))]
) -> Response:
    """Record when the notice of an extension was sent to the requester, and this call's API key. 409 without one."""
    return responses.answer(_render(request_log.record_notice(caller.tenant_id, request_id, given, caller.key_id)))


@router.post("/{request_id}/partial", summary="Record that the answer to a held erasure was sent")
def partial(
    caller: Guardian, request_id: RequestId, given: Annotated[Notice, Depends(json_body(Notice, is_optional=True))]
) -> Response:
    """Record when the letter `partial` was sent to the requester, and this call's API key. The deadline is then met.

    The request remains open until its legal holds are released and the rest is erased. 409 if no legal hold
    delays an erasure of this request, or the letter is already recorded.
    """
    answered = request_log.record_partial_answer(caller.tenant_id, request_id, given, caller.key_id)
    return responses.answer(_render(answered))


@router.get("/{request_id}/letters/{letter}", summary="Write an answer to a request")
def letter(caller: Guardian, request_id: RequestId, letter: LetterKind, as_form: LetterForm = "text") -> Response:
    """Return a letter with blanks for the requester's name: confirmation of receipt, extension, refusal or completion.

    `partial` is the answer while a legal hold delays an erasure: what is erased, what is retained and on which
    ground. Ebbing sends no letter. 409 for an extension, refusal or completion that isn't recorded.

    The response header `Ebbing-Open-Work` names what remains to be done before the letter is sent: texts to review,
    other unfinished erasures with the same case reference, and legal holds without a legal ground.
    """
    found = request_log.write_letter(caller.tenant_id, request_id, letter, as_page=as_form == "html")
    warning = {"Ebbing-Open-Work": "; ".join(found.open_work)} if found.open_work else {}
    if as_form == "html":
        return Response(found.text, media_type="text/html", headers=INERT | warning)
    return Response(found.text, media_type="text/plain", headers=warning)


@router.post("/{request_id}/deny", summary="Deny a request")
def deny(caller: Guardian, request_id: RequestId, given: Annotated[Denial, Depends(json_body(Denial))]) -> Response:
    """Deny a request and store the legal ground. 409 if it is answered or is an erasure in progress."""
    answered = request_log.answer_request(caller.tenant_id, request_id, "denied", given.basis, caller.key_id)
    return responses.answer(_render(answered))


@router.post("/{request_id}/complete", summary="Record that a request is completed")
def complete(caller: Guardian, request_id: RequestId, *, dry_run: bool = False) -> Response:
    """Complete a request. 409 if it is answered or is an erasure in progress. With `dry_run`, nothing is stored."""
    done = request_log.answer_request(caller.tenant_id, request_id, "done", None, caller.key_id, dry_run=dry_run)
    return responses.answer(_render(done))


@keeping.post("/{memory_id}/anonymise", summary="Anonymise a memory retained on a legal ground")
def anonymise(
    caller: Guardian, memory_id: MemoryId, given: Annotated[Ground, Depends(json_body(Ground, is_optional=True))]
) -> Response:
    """Clear the labels of a memory and replace personal data in its text by `[kind]`. Erasures then skip the memory.

    This can't be undone. 409 if the memory is under a legal hold or in cold storage. Only personal data that matches a
    pattern or a label is found, so check the returned text. The subject's erasure report counts such memories by
    `ground`.
    """
    done = anonymisation.anonymise(caller.tenant_id, memory_id, caller.key_id, given.ground)
    return responses.answer({"id": memory_id, "text": done.text, "removed": done.removed})


def _render(each: PrivacyRequest) -> dict[str, Any]:
    # `request_id`: deprecated name of `id`
    return {"id": each.request_id, **asdict(each), "days_left": deadlines.days_left(each, datetime.now(UTC))}
