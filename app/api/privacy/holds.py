"""`/v1/privacy/holds`: legal holds, under which memories are neither removed, moved nor changed."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response

from app.api.http import shapes
from app.api.http.auth import Caller, needs
from app.api.http.body import body_of, decode
from app.domain.privacy.hold import NewHold, parse_scope
from app.services.privacy import holds
from app.store.privacy.holds import Hold

router = APIRouter(prefix="/v1/privacy/holds", tags=["privacy"])

PAGE_MAX = 500

Guardian = Annotated[Caller, Depends(needs("privacy"))]


@router.post("", summary="Place a legal hold", status_code=201)
def place(caller: Guardian, body: Annotated[bytes, Depends(body_of)]) -> Response:
    """On memories by their ids, or on all of a subject, a filter or both; those that come later are held too.

    What it holds is neither deleted, moved to another tier nor rewritten from when this is answered until it is
    released. Conditions compare what callers said of a memory, not what was inferred.
    With `dry_run`, 200 with how many memories it would be on now.
    """
    given = decode(body, NewHold)
    if given.dry_run:
        return shapes.answer(holds.preview(caller.tenant_id, parse_scope(given))._asdict())
    placed = holds.place(caller.tenant_id, parse_scope(given), given.reason, caller.key_id)
    return shapes.answer(_shown(placed), 201)


@router.get("", summary="List legal holds, those placed last first")
def page(
    caller: Guardian,
    *,
    released: bool = False,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50,
    cursor: str | None = None,
) -> Response:
    """By cursor; with `released` those that were released too."""
    found = holds.page(caller.tenant_id, shapes.place_in_cursor(cursor), limit, released=released)
    following = shapes.cursor_at(found[-1].placed_at, found[-1].hold_id) if len(found) == limit else None
    return shapes.answer({"holds": [_shown(hold) for hold in found], "next_cursor": following})


@router.get("/{hold_id}", summary="One legal hold")
def get(caller: Guardian, hold_id: str) -> Response:
    """A hold, and how many `memories` it is on now; `hidden` are those that were deleted before it was placed."""
    found, counts = holds.get(caller.tenant_id, shapes.id_named(hold_id, "hold"))
    return shapes.answer(_shown(found) | counts._asdict())


@router.post("/{hold_id}/release", summary="Release a legal hold")
def release(caller: Guardian, hold_id: str) -> Response:
    """Memories that no other hold is on go their way again from the next night; 409 where it was released before."""
    return shapes.answer(_shown(holds.release(caller.tenant_id, shapes.id_named(hold_id, "hold"), caller.key_id)))


def _shown(hold: Hold) -> dict[str, Any]:
    by = hold.meant.given()
    return {
        "id": hold.hold_id,
        "reason": hold.reason,
        "memory_ids": by.pop("memory_ids", None),
        "subject": by.pop("subject", None),
        "filter": by or None,
        "placed_at": hold.placed_at,
        "placed_by": hold.placed_by,
        "released_at": hold.released_at,
        "released_by": hold.released_by,
    }
