"""`/v1/notes`: notes of promoted memories for `ebbing notes`, which copies them to a folder of the caller."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import msgspec
from fastapi import APIRouter, Depends, Query, Response

from app.api.http import responses
from app.api.http.auth import Reader
from app.api.http.cursors import ID, PAGE_MAX
from app.api.http.request_body import check_storable, json_body
from app.domain.notes.note import note_name
from app.services.notes import note_pages

router = APIRouter(prefix="/v1/notes", tags=["memories"])


class NoteCopy(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A folder into which a client copies notes.

    Attributes:
        copy_id: Id that the client has chosen for the folder.
        name: Name of the machine, 1 to 255 characters; erasure reports show it.
    """

    copy_id: UUID
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]

    def check_request(self) -> None:
        """Reject a name that can't be stored.

        Raises:
            Invalid: The name contains a NUL character.
        """
        check_storable(name=self.name)


@router.get("", summary="List notes of promoted memories")
def page(caller: Reader, limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 100, cursor: str | None = None) -> Response:
    """Return a page of notes as Markdown with YAML front matter, ordered by memory id.

    `content` is null while the memory is in cold storage. Register the folder first with `POST /v1/notes/copies`.
    """
    found = note_pages.list_notes(caller.tenant_id, ID.decode(cursor), limit)
    return responses.page(
        "notes", found, lambda row: {"id": row.memory_id, "name": note_name(row.memory_id), "content": row.content}, ID
    )


@router.post("/copies", summary="Register a folder with copies of notes", status_code=204)
def register(caller: Reader, wanted: Annotated[NoteCopy, Depends(json_body(NoteCopy))]) -> Response:
    """Record that a client copies notes into a folder: erasure reports name its machine as a recipient."""
    note_pages.register_copy(caller.tenant_id, wanted.copy_id, wanted.name)
    return Response(status_code=204)
