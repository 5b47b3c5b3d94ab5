"""Legal holds: placed on a person, a conversation or memories, listed, and released."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request, Response

from app.api.http import shapes
from app.dashboard import rendering
from app.dashboard.access import Acting, Viewer, acts, sees
from app.dashboard.forms import read_as
from app.dashboard.rendering import back
from app.domain.privacy.hold import IDS_MAX, NewHold, parse_scope
from app.errors import FieldError, Invalid
from app.services.privacy import holds

PAGE: Final = 50
_BETWEEN_IDS: Final = re.compile(r"[\s,;]+")

router = APIRouter(prefix="/privacy/holds")

Looking = Annotated[Viewer, Depends(sees("privacy"))]
Guarding = Annotated[Acting, Depends(acts("privacy"))]


@router.get("")
def page(viewer: Looking, request: Request, cursor: str | None = None, *, released: bool = False) -> Response:
    """Those that are on, or all of them, those placed last first."""
    found = holds.page(viewer.tenant_id, shapes.place_in_cursor(cursor), PAGE, released=released)
    following = shapes.cursor_at(found[-1].placed_at, found[-1].hold_id) if len(found) == PAGE else None
    return rendering.page(
        request, viewer, "privacy_holds", holds=found, following=following, released=released, ids_max=IDS_MAX
    )


@router.get("/{hold_id}")
def one(viewer: Looking, request: Request, hold_id: str) -> Response:
    """One, and how many memories it is on now."""
    found, counts = holds.get(viewer.tenant_id, shapes.id_named(hold_id, "hold"))
    return rendering.page(request, viewer, "privacy_hold", hold=found, counts=counts)


@router.post("")
def place(acting: Guarding) -> Response:
    """From when this is answered, nothing that it is on is removed, moved or changed."""
    given = read_as(NewHold, {"reason": acting.reason, **_of(acting.form.get("by", ""), acting.form.get("what", ""))})
    acting.note("place_hold", acting.form["by"])
    placed = holds.place(acting.tenant_id, parse_scope(given), given.reason, acting.key_id)
    return back(f"/privacy/holds/{placed.hold_id}", "held")


@router.post("/{hold_id}/release")
def release(acting: Guarding, hold_id: str) -> Response:
    """What it was on goes its way again."""
    which = shapes.id_named(hold_id, "hold")
    acting.note("release_hold", str(which))
    holds.release(acting.tenant_id, which, acting.key_id)
    return back(f"/privacy/holds/{which}", "released")


def _of(by: str, what: str) -> dict[str, Any]:
    """What is to be held.

    Raises:
        Invalid: Nothing that a hold can be placed by.
    """
    if by == "subject":
        return {"subject": what}
    if by == "thread":
        return {"filter": {"thread": what}} if what else {}
    if by == "ids":
        return {"memory_ids": [each for each in _BETWEEN_IDS.split(what) if each] or None}
    raise Invalid(errors=[FieldError("by", "must be subject, thread or ids")])
