"""`/v1/supersessions`: which memories have taken the place of which, and what is proposed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response

from app.api.http import shapes
from app.api.http.auth import Caller, needs
from app.api.http.body import body_of, decode
from app.domain.consolidation.supersession import NewSupersession, Status
from app.services.consolidation import supersede
from app.store.consolidation.supersessions import Relation

router = APIRouter(prefix="/v1/supersessions", tags=["supersessions"])

PAGE_MAX = 500

Writer = Annotated[Caller, Depends(needs("ingest"))]


@router.get("", summary="List supersessions, those made last first")
def page(
    caller: Annotated[Caller, Depends(needs("read"))],
    status: Status | None = None,
    memory: UUID | None = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50,
    cursor: str | None = None,
) -> Response:
    """By cursor; of a memory, those in which it is the newer or the older.

    `active`: searches show the newer memory alone, from `since` on. `proposed`: a model takes the older one to be
    outdated, and somebody has to decide. `waiting`: what the newer one's caller has `named` isn't stored yet.
    `rejected`: it doesn't hold, for a `reason`.
    """
    found = supersede.page(caller.tenant_id, status, memory, shapes.place_in_cursor(cursor), limit)
    following = shapes.cursor_at(found[-1].made_at, found[-1].supersession_id) if len(found) == limit else None
    return shapes.answer({"supersessions": [_shown(each) for each in found], "next_cursor": following})


@router.post("", summary="Let a memory supersede another")
def make(caller: Writer, body: Annotated[bytes, Depends(body_of)]) -> Response:
    """Both are named by an id or by the caller's own; what is so already stays. Neither memory changes.

    409 where the older one supersedes the newer, or they are about different subjects.
    """
    given = decode(body, NewSupersession)
    return shapes.answer(_shown(supersede.make(caller.tenant_id, given.memory, given.supersedes, caller.key_id)))


@router.post("/{supersession_id}/approve", summary="Let a proposal hold")
def approve(caller: Writer, supersession_id: str) -> Response:
    """From now on searches show the newer memory alone. What was rejected may be approved as well."""
    return shapes.answer(
        _shown(supersede.approve(caller.tenant_id, shapes.id_named(supersession_id, "supersession"), caller.key_id))
    )


@router.post("/{supersession_id}/reject", summary="Refuse a proposal")
def reject(caller: Writer, supersession_id: str) -> Response:
    """It isn't proposed again; 409 for one that holds, which DELETE takes back."""
    return shapes.answer(
        _shown(supersede.reject(caller.tenant_id, shapes.id_named(supersession_id, "supersession"), caller.key_id))
    )


@router.delete("/{supersession_id}", summary="Take a supersession back", status_code=204)
def undo(caller: Writer, supersession_id: str) -> Response:
    """The older memory is current again, unless something else supersedes it. Safe to repeat."""
    supersede.undo(caller.tenant_id, shapes.id_named(supersession_id, "supersession"), caller.key_id)
    return Response(status_code=204)


def _shown(found: Relation) -> dict[str, Any]:
    shown = asdict(found)
    return {
        "id": shown.pop("supersession_id"),
        "memory": {"id": shown.pop("memory_id"), "text": shown.pop("text")},
        "supersedes": {"id": shown.pop("superseded_id"), "text": shown.pop("superseded_text")},
        **shown,
    }
