"""`POST /v1/memories/delete`: delete several memories by id or external id, or those of a thread."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from app.api.http import responses
from app.api.http.auth import Writer
from app.api.http.request_body import json_body
from app.domain.ingest.deletion import DeletionOfMany
from app.services.erasure import deletion_of_many

router = APIRouter(prefix="/v1/memories", tags=["memories"])


@router.post("/delete", summary="Delete several memories", status_code=202)
def delete_several(caller: Writer, wanted: Annotated[DeletionOfMany, Depends(json_body(DeletionOfMany))]) -> Response:
    """Delete memories: they disappear from searches, lists and reads at once, and are erased after the grace period.

    Give `ids`, `external_ids` or `thread`. Unknown ids, and memories that are still in the ingest queue, are ignored.
    `deleted` counts the deleted memories. 409 if one of them is under a legal hold; then nothing is deleted.
    """
    deleted = deletion_of_many.delete_wanted(caller.tenant_id, caller.key_id, wanted)
    return responses.answer({"deleted": deleted}, 202)
