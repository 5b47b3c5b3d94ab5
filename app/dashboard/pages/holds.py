"""Legal holds: place them on a subject, a thread or memories; list, correct and release them."""

from __future__ import annotations

import re
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from app.api.http.cursors import TIMED
from app.api.http.path_ids import HoldId
from app.dashboard import rendering
from app.dashboard.access import Guarding, PrivacyViewer
from app.dashboard.forms import read_as
from app.dashboard.rendering import redirect_back
from app.domain.privacy.legal_hold import HOLD_GROUNDS, IDS_MAX, HoldCorrection, NewHold, parse_scope
from app.errors import FieldError, Invalid
from app.services.privacy import legal_holds

PAGE: Final = 50
_BETWEEN_IDS: Final = re.compile(r"[\s,;]+")

router = APIRouter(prefix="/privacy/holds")


@router.get("")
def list_holds(
    viewer: PrivacyViewer, request: Request, cursor: str | None = None, *, released: bool = False
) -> Response:
    """List the active holds, or all holds, newest first."""
    found = legal_holds.list_holds(viewer.tenant_id, TIMED.decode(cursor), PAGE, released=released)
    return rendering.page(
        request,
        viewer,
        "privacy/holds",
        holds=found,
        following=TIMED.encode(found.following),
        released=released,
        ids_max=IDS_MAX,
        grounds=HOLD_GROUNDS,
    )


@router.get("/{hold_id}")
def show_hold(viewer: PrivacyViewer, request: Request, hold_id: HoldId) -> Response:
    """Show a hold and the number of memories it covers now."""
    found, counts, waiting = legal_holds.get(viewer.tenant_id, hold_id)
    return rendering.page(
        request,
        viewer,
        "privacy/hold",
        hold=found,
        counts=counts,
        waiting=waiting,
        changes=legal_holds.list_changes(viewer.tenant_id, [hold_id]),
        grounds=HOLD_GROUNDS,
    )


@router.post("")
def place_hold(acting: Guarding) -> Response:
    """Place a hold: from the response on, its memories can't be edited, merged, deleted or moved to a lower tier."""
    given = read_as(
        NewHold,
        {
            "reason": acting.reason,
            **_hold_fields(acting.form.get("by", ""), acting.form.get("what", "")),
            "ground": _read_ground(acting.form.get("ground", "")),
        },
    )
    meant = parse_scope(given)
    acting.record("place_hold", acting.form["by"])
    placed = legal_holds.place_hold(acting.tenant_id, meant, given.reason, acting.key_id, given.ground)
    return redirect_back(f"/privacy/holds/{placed.hold_id}", "held")


@router.post("/{hold_id}/correct")
def correct_hold(acting: Guarding, hold_id: HoldId) -> Response:
    """Add or correct the ground of a hold, and its reason if one is given."""
    fields: dict[str, Any] = {"ground": _read_ground(acting.form.get("ground", ""))}
    if words := acting.form.get("words", "").strip():
        fields["reason"] = words
    given = read_as(HoldCorrection, fields)
    acting.record_on("correct_hold", hold_id, legal_holds.get)
    legal_holds.correct_hold(acting.tenant_id, hold_id, given, acting.key_id)
    return redirect_back(f"/privacy/holds/{hold_id}", "corrected")


@router.post("/{hold_id}/release")
def release_hold(acting: Guarding, hold_id: HoldId) -> Response:
    """Release a hold; memories without another hold can be edited, merged, moved and deleted again."""
    acting.record_on("release_hold", hold_id, legal_holds.get)
    legal_holds.release_hold(acting.tenant_id, hold_id, acting.key_id, acting.reason)
    return redirect_back(f"/privacy/holds/{hold_id}", "released")


def _read_ground(ground: str) -> str | None:
    """Return the chosen legal ground; None if the form says that there is none.

    Raises:
        Invalid: The form states neither a ground nor its absence.
    """
    if not ground:
        raise Invalid(errors=[FieldError("ground", "is missing: choose a legal ground, or none")])
    return None if ground == "none" else ground


def _hold_fields(by: str, what: str) -> dict[str, Any]:
    """Build the fields of a hold request from the form.

    Raises:
        Invalid: Unknown kind of selection.
    """
    if by == "subject":
        return {"subject": what}
    if by == "thread":
        return {"filter": {"thread": what}} if what else {}
    if by == "ids":
        return {"memory_ids": [each for each in _BETWEEN_IDS.split(what) if each] or None}
    raise Invalid(errors=[FieldError("by", "must be subject, thread or ids")])
