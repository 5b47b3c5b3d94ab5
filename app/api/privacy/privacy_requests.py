"""`/v1/privacy/requests`: the log of requests about somebody's data, kept 24 months, and its numbers."""

from __future__ import annotations

from dataclasses import asdict
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response

from app.api.http import shapes
from app.api.http.auth import Caller, needs
from app.api.http.body import body_of, decode
from app.api.memories.memories import Moment
from app.domain.privacy.requests import Denial, Ground, NewRequest, Request
from app.errors import FieldError, Invalid
from app.services.privacy import anonymising, deadlines, privacy_requests

router = APIRouter(prefix="/v1/privacy/requests", tags=["privacy"])
keeping = APIRouter(prefix="/v1/privacy/memories", tags=["privacy"])

PAGE_MAX = 500
YEAR = timedelta(days=365)

Guardian = Annotated[Caller, Depends(needs("privacy"))]


@router.post("", summary="Enter a request that came by another way", status_code=201)
def enter(caller: Guardian, body: Annotated[bytes, Depends(body_of)]) -> Response:
    """Such as a correction asked for by mail. Erasures and exports of the API are entered by themselves."""
    return shapes.answer(_shown(privacy_requests.create(caller.tenant_id, decode(body, NewRequest))), 201)


@router.get("", summary="List requests, those received last first")
def page(
    caller: Guardian,
    *,
    only_open: bool = False,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50,
    cursor: str | None = None,
) -> Response:
    """By cursor; with `only_open` those that aren't answered, and the days that they have left.

    Nothing says whom they are about.
    """
    found = privacy_requests.page(caller.tenant_id, shapes.place_in_cursor(cursor), limit, is_open=only_open)
    following = shapes.cursor_at(found[-1].received_at, found[-1].request_id) if len(found) == limit else None
    return shapes.answer({"requests": [_shown(each) for each in found], "next_cursor": following})


@router.get("/summary", summary="Numbers of requests, by nature and law")
def summary(caller: Guardian, *, after: Moment | None = None, before: Moment | None = None) -> Response:
    """How many were received, done, denied and late, and the median and mean days until the answer.

    Of those received from `after` (a year ago where left out) until `before` (now); and the categories of what is held.
    """
    for name, given in (("after", after), ("before", before)):
        if given is not None and not MINYEAR + 2 <= given.year < MAXYEAR:
            raise Invalid(errors=[FieldError(name, "is out of range")])
    until = before or datetime.now(UTC)
    since = after or until - YEAR
    return shapes.answer(asdict(privacy_requests.summary(caller.tenant_id, since, until)))


@router.post("/{request_id}/confirm", summary="Note that a request was confirmed")
def confirm(caller: Guardian, request_id: str) -> Response:
    """That whoever asked was told that it has come; the first time counts."""
    return shapes.answer(_shown(privacy_requests.confirm(caller.tenant_id, shapes.id_named(request_id, "request"))))


@router.post("/{request_id}/deny", summary="Deny a request")
def deny(caller: Guardian, request_id: str, body: Annotated[bytes, Depends(body_of)]) -> Response:
    """With the ground, which is kept. 409 where it is answered, or is an erasure that goes on."""
    given = decode(body, Denial)
    answered = privacy_requests.answer(
        caller.tenant_id, shapes.id_named(request_id, "request"), "denied", given.basis, caller.key_id
    )
    return shapes.answer(_shown(answered))


@router.post("/{request_id}/complete", summary="Note that a request is done")
def complete(caller: Guardian, request_id: str) -> Response:
    """409 where it is answered, or is an erasure that goes on."""
    done = privacy_requests.answer(
        caller.tenant_id, shapes.id_named(request_id, "request"), "done", None, caller.key_id
    )
    return shapes.answer(_shown(done))


@keeping.post("/{memory_id}/anonymise", summary="Make a memory anonymous that a legal ground keeps")
def anonymise(caller: Guardian, memory_id: str, body: Annotated[bytes, Depends(body_of)]) -> Response:
    """Its labels are emptied, and what is personal in its text is replaced by `[kind]`; an erasure then leaves it.

    It can't be undone. 409 where it is under a legal hold, or in cold storage. What no pattern and no label names isn't
    found: read the answer. The report of the person's erasure tells how many are kept so, and on what `ground`.
    """
    given = decode(body or b"{}", Ground)
    done = anonymising.anonymise(caller.tenant_id, shapes.id_named(memory_id, "memory"), caller.key_id, given.ground)
    return shapes.answer({"id": memory_id, "text": done.text, "removed": done.removed})


def _shown(each: Request) -> dict[str, Any]:
    return asdict(each) | {"days_left": deadlines.days_left(each, datetime.now(UTC))}
