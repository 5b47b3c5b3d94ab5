"""`/v1/supersessions`: list, create, approve, reject and undo supersessions."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Response

from app.api.http import responses
from app.api.http.auth import Reader, Writer
from app.api.http.cursors import Paged
from app.api.http.path_ids import SupersessionId
from app.api.http.request_body import json_body
from app.domain.consolidation.supersession import NewSupersession, Status
from app.services.consolidation import supersession
from app.store.consolidation.supersessions import StoredSupersession

router = APIRouter(prefix="/v1/supersessions", tags=["supersessions"])


@router.get("", summary="List supersessions, newest first")
def page(
    caller: Reader,
    wanted: Paged,
    status: Status | None = None,
    memory: UUID | None = None,
) -> Response:
    """Return a page of supersessions; `memory` selects those in which it is the newer or the older memory.

    `active`: searches return only the newer memory, from `since` on. `proposed`: a model considers the older memory
    outdated and a decision is needed. `waiting`: the memory `named` by the caller isn't stored yet. `rejected`: the
    supersession was refused, see `reason`.
    """
    found = supersession.list_supersessions(caller.tenant_id, status, memory, *wanted)
    return responses.page("supersessions", found, _render)


@router.post("", summary="Create a supersession")
def make(caller: Writer, given: Annotated[NewSupersession, Depends(json_body(NewSupersession))]) -> Response:
    """Mark a memory as superseding another, each given by its id or the caller's own id. Safe to repeat.

    Neither memory is changed. If the API key's source is less trusted than that of the older memory, the result is a
    proposal. 409 if the older one supersedes the newer one, or if their subjects differ.
    """
    made = supersession.make_supersession(caller.tenant_id, given.memory, given.supersedes, caller.writer)
    return responses.answer(_render(made))


@router.post("/{supersession_id}/approve", summary="Approve a proposed supersession")
def approve(caller: Writer, supersession_id: SupersessionId) -> Response:
    """Approve: searches return only the newer memory from now on. Rejected supersessions can be approved too.

    409 if the API key's source is lower than that of the older memory.
    """
    found = supersession.approve_supersession(caller.tenant_id, supersession_id, caller.writer)
    return responses.answer(_render(found))


@router.post("/{supersession_id}/reject", summary="Reject a proposed supersession")
def reject(caller: Writer, supersession_id: SupersessionId) -> Response:
    """Reject: it won't be proposed again.

    409 if the supersession is active (undo it with DELETE), or if the API key's source is lower than that of the newer
    memory.
    """
    found = supersession.reject_supersession(caller.tenant_id, supersession_id, caller.writer)
    return responses.answer(_render(found))


@router.delete("/{supersession_id}", summary="Undo a supersession", status_code=204)
def undo(caller: Writer, supersession_id: SupersessionId) -> Response:
    """Make the older memory current again, unless another memory supersedes it. Safe to repeat.

    409 if the API key's source is lower than that of the newer memory.
    """
    supersession.undo_supersession(caller.tenant_id, supersession_id, caller.writer)
    return Response(status_code=204)


def _render(found: StoredSupersession) -> dict[str, Any]:
    shown = asdict(found)
    return {
        "id": shown.pop("supersession_id"),
        "memory": {"id": shown.pop("memory_id"), "text": shown.pop("text")},
        "supersedes": {"id": shown.pop("superseded_id"), "text": shown.pop("superseded_text")},
        **shown,
    }
