"""`/v1/imports`: upload a file of memories, which a job imports, and follow its progress."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from app.api.http import responses
from app.api.http.auth import Maintainer
from app.api.http.cursors import Paged
from app.api.http.path_ids import ImportId
from app.api.http.request_body import Incomplete, TooSlow, check_storable, header
from app.domain.imports.formats import FORMATS
from app.domain.imports.items import ImportOptions
from app.errors import FieldError, Invalid, TooLarge, Unreadable
from app.services.ingest import import_requests
from app.services.privacy.import_files import PART_BYTES
from app.settings import settings
from app.store.ingest.imports import Import

router = APIRouter(prefix="/v1/imports", tags=["imports"])
_LINE: Final = '{"text": "Ann prefers green tea", "subject": "ann", "uses": 3}'
_FILE: Final = {
    "requestBody": {
        "required": True,
        "description": "The file, as it is.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}, "example": _LINE}},
    }
}


@router.post("", summary="Import a file of memories", status_code=202, openapi_extra=_FILE)
async def start(
    caller: Maintainer,
    request: Request,
    *,
    format_name: Annotated[str, Query(alias="format", description=f"One of {', '.join(FORMATS)}.")],
    mapping: Annotated[
        str | None,
        Query(alias="map", description="Columns or keys that hold fields: `text=content,occurred_at=meta.time`."),
    ] = None,
    subject: Annotated[str | None, Query(description="Subject of memories for which the file names none.")] = None,
    thread: Annotated[str | None, Query(description="Thread of memories for which the file names none.")] = None,
    time_zone: Annotated[
        str | None, Query(description="Time zone of times without an offset, such as `Europe/Berlin`.")
    ] = None,
    tick_seconds: Annotated[float | None, Query(description="Length of a tick (memory-decay); default 3600.")] = None,
    accept: Annotated[
        bool, Query(description="Confirm that a dump of another installation contains no subjects erased there since.")
    ] = False,
    dry_run: Annotated[bool, Query(description="Only count what would be stored.")] = False,
) -> Response:
    """Upload a file as the request's body; a job stores its memories.

    Each memory gets a stable external id (such as `mem0:ID`, or a digest of its content), so importing a file again
    stores nothing twice: known memories are updated if they differ. Uses, times, promotion and strength are preserved.
    `GET /v1/imports/{import_id}` has the progress and the reasons for skipped records. The file is stored encrypted
    until the job ends. 409 if no master key is configured, 413 above `EBBING_IMPORT_MAX_BYTES`.
    """
    check_storable(format=format_name, map=mapping, subject=subject, thread=thread, time_zone=time_zone)
    options = _read_options(mapping, subject=subject, thread=thread, time_zone=time_zone, tick_seconds=tick_seconds)
    options = msgspec.structs.replace(options, accept=accept)
    file = await run_in_threadpool(import_requests.begin_upload, caller.tenant_id, format_name, options)
    try:
        async for part in _read_parts(request):
            await run_in_threadpool(file.write, part)
        made = await run_in_threadpool(import_requests.finish_upload, file, format_name, caller.key_id, dry_run=dry_run)
    except BaseException:
        await run_in_threadpool(file.discard)
        raise
    return responses.answer(_render(made), 202)


@router.get("", summary="List imports, newest first")
def page(caller: Maintainer, wanted: Paged) -> Response:
    """Return a page of imports; their reports are retained for 90 days."""
    return responses.page("imports", import_requests.list_imports(caller.tenant_id, *wanted), _render)


@router.get("/{import_id}", summary="Get an import")
def get(caller: Maintainer, import_id: ImportId) -> Response:
    """Return the progress of an import, and up to 1,000 skipped records with their places and reasons."""
    found = import_requests.get(caller.tenant_id, import_id)
    place = FORMATS[found.format].place
    skipped = [{place: number, "reason": reason} for number, reason in found.skipped]
    return responses.answer(_render(found) | {"skipped": skipped})


def _read_options(mapping: str | None, **values: object) -> ImportOptions:
    given: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    if mapping is not None:
        pairs = [pair.partition("=") for pair in mapping.split(",")]
        if not all(field.strip() and column.strip() for field, _, column in pairs):
            raise Invalid(errors=[FieldError("map", "must consist of pairs such as text=content,occurred_at=time")])
        given["map"] = {field.strip(): column.strip() for field, _, column in pairs}
    try:
        return msgspec.convert(given, ImportOptions)
    except msgspec.ValidationError as error:
        name = next((name for name in given if f"$.{name}" in str(error)), "options")
        limit = "must be 1 to 512 characters" if name in ("subject", "thread") else "is out of its limits"
        raise Invalid(errors=[FieldError(name, limit)]) from None


async def _read_parts(request: Request) -> AsyncIterator[bytes]:
    """Yield the body in parts of `PART_BYTES`; each must arrive within the timeout of a request body.

    Raises:
        TooLarge: The body or its declared length is over the limit.
        Incomplete: The body ended early.
        TooSlow: A part didn't arrive within the timeout.
        Unreadable: The body is compressed.
    """
    if header(request.scope, b"content-encoding") not in (None, "", "identity"):
        raise Unreadable("compressed bodies are not supported: send the file as it is")
    limit = settings().import_max_bytes
    declared = header(request.scope, b"content-length") or ""
    if declared.isascii() and declared.isdigit() and int(declared[:20]) > limit:
        raise _too_large(int(declared[:20]), limit)
    held, size, more = bytearray(), 0, True
    while more:
        try:
            async with asyncio.timeout(settings().request_body_timeout_seconds):
                message = await request.receive()
        except TimeoutError:
            raise TooSlow from None
        if message["type"] == "http.disconnect":
            raise Incomplete("the connection was closed before the end of the body, or a chunk is malformed")
        held += message.get("body", b"")
        more = message.get("more_body", False)
        while len(held) >= PART_BYTES:
            size += PART_BYTES
            yield bytes(held[:PART_BYTES])
            del held[:PART_BYTES]
        if size + len(held) > limit:
            raise _too_large(size + len(held), limit)
    if held:
        yield bytes(held)


def _too_large(size: int, limit: int) -> TooLarge:
    return TooLarge(errors=[FieldError("body", "is too large in bytes", size, limit)])


def _render(found: Import) -> dict[str, Any]:
    return {
        "id": found.import_id,
        **responses.pick(found, "format", "status", "dry_run", "requested_at", "requested_by", "finished_at"),
        **responses.pick(found, "size_bytes", "job_id", "counts", "reasons", "failure"),
        "records": found.position,
    }
