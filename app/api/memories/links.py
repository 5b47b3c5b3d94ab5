"""`/v1/links`: add, list and remove links between memories."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import msgspec
from fastapi import APIRouter, Depends, Query, Response

from app.api.http import responses
from app.api.http.auth import Reader, Writer
from app.api.http.cursors import LINK
from app.api.http.request_body import json_body
from app.domain.strength.links import KIND_MAX_CHARACTERS, LINKS_A_CALL, NewLink
from app.errors import FieldError, Invalid
from app.services.memories import links
from app.store.memories.links import Link, LinkFilter

router = APIRouter(prefix="/v1/links", tags=["links"])

PAGE_MAX = 1_000

NewLinks: Any = NewLink | Annotated[list[NewLink], msgspec.Meta(min_length=1, max_length=LINKS_A_CALL)]


def parse_filter(
    memory: UUID | None = None,
    from_id: Annotated[UUID | None, Query(alias="from")] = None,
    to_id: Annotated[UUID | None, Query(alias="to")] = None,
    kind: Annotated[str | None, Query(min_length=1, max_length=KIND_MAX_CHARACTERS, pattern=r"^[^\x00]*$")] = None,
) -> LinkFilter:
    """Filter links by `memory` at either end, by `from`, `to` and `kind`; all conditions must match."""
    return LinkFilter(memory, from_id, to_id, kind)


Meant = Annotated[LinkFilter, Depends(parse_filter)]


@router.get("", summary="List links")
def page(
    caller: Reader,
    meant: Meant,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 100,
    cursor: str | None = None,
) -> Response:
    """Return a page of links: of `memory` in either direction, from `from`, to `to`; without conditions, all links."""
    return responses.page("links", links.list_links(caller.tenant_id, meant, LINK.decode(cursor), limit), _render, LINK)


@router.post("", summary="Link memories")
def add(caller: Writer, given: Annotated[NewLinks, Depends(json_body(NewLinks))]) -> Response:
    """Add one link or up to 1,000 atomically. Adding an existing link updates its weight."""
    done = links.add(caller.tenant_id, [given] if isinstance(given, NewLink) else given)
    return responses.answer(done._asdict())


@router.delete("", summary="Remove links")
def remove(caller: Writer, meant: Meant, *, both_ways: bool = False) -> Response:
    """Remove all links of `memory`, from `from`, to `to`, or between the two. The memories are not deleted."""
    if meant.memory_id is None and meant.from_id is None and meant.to_id is None:
        raise Invalid(errors=[FieldError("memory", "is missing: give `memory`, or `from` and `to`")])
    return responses.answer({"removed": links.remove(caller.tenant_id, meant, both_ways=both_ways)})


def _render(link: Link) -> dict[str, Any]:
    return responses.render(link, memory_id="from", other_id="to")
