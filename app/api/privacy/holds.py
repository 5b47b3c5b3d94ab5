"""`/v1/privacy/holds`: legal holds, which block edits, merges, deletion and moves to a lower tier."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Response

from app.api.http import responses
from app.api.http.auth import Guardian
from app.api.http.cursors import Paged
from app.api.http.path_ids import HoldId
from app.api.http.request_body import json_body
from app.api.privacy.near_names import describe_names, warn_unknown
from app.domain.privacy.legal_hold import NO_GROUND, HoldCorrection, HoldRelease, NewHold, parse_scope
from app.services.privacy import legal_holds
from app.store.privacy.holds import Hold

router = APIRouter(prefix="/v1/privacy/holds", tags=["privacy"])


@router.post("", summary="Place a legal hold", status_code=201)
def place(caller: Guardian, given: Annotated[NewHold, Depends(json_body(NewHold))]) -> Response:
    """Place a hold on memories by id, or on all current and future memories of a subject, a filter, or both.

    From the response until the release, held memories are not deleted, moved to another tier or rewritten. Conditions
    compare fields set by callers, not inferred ones. 422 if the reason contains the name of the hold's subject,
    or of a subject in the filter's thread or of the listed memories. With `dry_run`, the response is 200 with the
    number of memories that the hold would cover now.

    Without a `ground`, the hold is placed, and `ground_warning` says how letters and reports show this.

    If no stored memory has the subject, `warning` says so and `near` lists subjects with similar names. With
    `dry_run`, `other_spellings` lists subjects with the same name in another spelling or order, which the hold doesn't
    cover.
    """
    if given.dry_run:
        known = describe_names(caller.tenant_id, given.subject)
        counted = legal_holds.preview_hold(caller.tenant_id, parse_scope(given), given.reason)._asdict()
        return responses.answer(counted | known | _warn_ground(given))
    known, meant = warn_unknown(caller.tenant_id, given.subject), parse_scope(given)
    placed = legal_holds.place_hold(caller.tenant_id, meant, given.reason, caller.key_id, given.ground)
    return responses.answer(_render(placed) | known | _warn_ground(given), 201)


@router.get("", summary="List legal holds, newest first")
def page(caller: Guardian, wanted: Paged, *, released: bool = False) -> Response:
    """Return a page of holds; with `released`, include released ones."""
    return responses.page("holds", legal_holds.list_holds(caller.tenant_id, *wanted, released=released), _render)


@router.get("/{hold_id}", summary="Get a legal hold")
def get(caller: Guardian, hold_id: HoldId) -> Response:
    """Return a hold with the number of visible `memories` it covers, and of those that erasures hide (`hidden`).

    `waiting` counts the erasures that continue when the hold is released, and the memories that they then erase.
    `changes` lists the corrections of its ground and reason, each with the values before it.
    """
    found, counts, waiting = legal_holds.get(caller.tenant_id, hold_id)
    changes = _render_changes(caller.tenant_id, hold_id)
    return responses.answer(_render(found) | counts._asdict() | {"waiting": waiting._asdict()} | changes)


@router.patch("/{hold_id}", summary="Correct the ground or the reason of a legal hold")
def correct(
    caller: Guardian, hold_id: HoldId, given: Annotated[HoldCorrection, Depends(json_body(HoldCorrection))]
) -> Response:
    """Add or correct the legal ground and the reason of a hold, in force or released; omitted fields remain.

    `changes` lists each correction with the ground and the reason before it. Letters and reports state the new ground.
    """
    corrected = legal_holds.correct_hold(caller.tenant_id, hold_id, given, caller.key_id)
    return responses.answer(_render(corrected) | _render_changes(caller.tenant_id, hold_id))


@router.post("/{hold_id}/release", summary="Release a legal hold")
def release(
    caller: Guardian,
    hold_id: HoldId,
    given: Annotated[HoldRelease, Depends(json_body(HoldRelease, is_optional=True))],
) -> Response:
    """Release a hold: memories without another hold can be changed and deleted again. 409 if already released.

    Erasures that only this hold delayed continue at once: `continued` counts them, and the memories that they erase.
    """
    found, waiting = legal_holds.release_hold(caller.tenant_id, hold_id, caller.key_id, given.reason)
    return responses.answer(_render(found) | {"continued": waiting._asdict()})


def _render_changes(tenant_id: UUID, hold_id: UUID) -> dict[str, Any]:
    found = legal_holds.list_changes(tenant_id, [hold_id])
    return {"changes": [responses.pick(each, "changed_at", "changed_by", "ground", "reason") for each in found]}


def _warn_ground(given: NewHold) -> dict[str, str]:
    """Return the warning that a hold has no legal ground; empty if it has one."""
    return {} if given.ground else {"ground_warning": NO_GROUND}


def _render(hold: Hold) -> dict[str, Any]:
    by = hold.meant.conditions()
    return {
        "id": hold.hold_id,
        **responses.pick(hold, "reason", "ground"),
        "ids": by.get("memory_ids"),
        "memory_ids": by.pop("memory_ids", None),  # deprecated name of `ids`
        "subject": by.pop("subject", None),
        "filter": by or None,
        **responses.pick(hold, "placed_at", "placed_by", "released_at", "released_by", "release_reason"),
    }
