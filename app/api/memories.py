"""`/v1/memories/{id}` and the list; ingest has a module of its own."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response
from pydantic import AwareDatetime

from app.api import shapes
from app.api.auth import Caller, needs
from app.api.body import DATED, body_of
from app.domain.memory import NAME_MAX_CHARACTERS, Kind, decode_patch
from app.errors import FieldError, Invalid, NotFound
from app.services import memories
from app.store.memories import Filters

router = APIRouter(prefix="/v1/memories", tags=["memories"])

PAGE_MAX = 500

Reader = Annotated[Caller, Depends(needs("read"))]
Writer = Annotated[Caller, Depends(needs("ingest"))]
Name = Annotated[str | None, Query(min_length=1, max_length=NAME_MAX_CHARACTERS)]
Moment = Annotated[AwareDatetime, DATED]


@router.get("", summary="List memories, newest first")
def page(
    caller: Reader,
    subject: Name = None,
    thread: Name = None,
    tag: Name = None,
    kind: Kind | None = None,
    tier: Literal["active", "archived", "cold"] | None = None,
    after: Moment | None = None,
    before: Moment | None = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50,
    cursor: str | None = None,
) -> Response:
    """Stored memories, by cursor. `after` and `before` compare when they happened, else when they were accepted."""
    _check_storable(subject=subject, thread=thread, tag=tag)
    wanted = Filters(subject, thread, tag, kind, tier, after, before)
    older_than = None if cursor is None else shapes.id_in_cursor(cursor)
    return shapes.answer(shapes.memories(memories.page(caller.tenant_id, wanted, older_than, limit), limit))


@router.get("/{memory_id}", summary="One memory")
def get(caller: Reader, memory_id: str) -> Response:
    """A memory; `status` is `pending` while it waits to be stored."""
    return shapes.answer(shapes.memory(memories.get(caller.tenant_id, id_of(memory_id))))


@router.patch("/{memory_id}", summary="Edit a memory")
def edit(caller: Writer, memory_id: str, body: Annotated[bytes, Depends(body_of)]) -> Response:
    """Change the fields given; null empties one. The next search is right, neighbours' context included."""
    return shapes.answer(shapes.memory(memories.edit(caller.tenant_id, id_of(memory_id), decode_patch(body))))


@router.delete("/{memory_id}", summary="Delete a memory", status_code=204)
def delete(caller: Writer, memory_id: str) -> Response:
    """Hide it from every search, list and read from now on."""
    memories.delete(caller.tenant_id, id_of(memory_id))
    return Response(status_code=204)


def id_of(text: str) -> UUID:
    """The id of a memory in a path.

    Raises:
        NotFound: It isn't an id, so it names no memory.
    """
    try:
        return UUID(text)
    except ValueError:
        raise NotFound("this tenant has no such memory") from None


def _check_storable(**names: str | None) -> None:
    for field, value in names.items():
        if value is not None and "\0" in value:
            raise Invalid(errors=[FieldError(field, "holds a NUL character, which can't be stored")])
