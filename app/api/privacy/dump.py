"""`GET /v1/privacy/dump`: the whole tenant as JSON lines, for a move to another installation."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import StreamingResponse

from app.api.http.auth import Guardian
from app.services.privacy import dump

router = APIRouter(prefix="/v1/privacy/dump", tags=["privacy"])


@router.get("", summary="Dump the tenant")
def fetch(caller: Guardian) -> Response:
    """Return the tenant's policies, holds, and memories with state, history, links, merges and reviews as JSON lines.

    Memories hidden by erasures or quarantines are left out; `quarantined` of the last line counts the latter.
    `POST /v1/imports?format=dump` loads the file: memories keep their ids, times and strength. The file isn't
    encrypted; `ebbing dump --key-file` encrypts it. The audit log records the dump, and reports of later erasures list
    dumps among the copies that they can't reach.
    """
    named = {"Content-Disposition": 'attachment; filename="ebbing-dump.jsonl"'}
    lines = dump.stream_dump(caller.tenant_id, caller.key_id)
    return StreamingResponse(lines, media_type="application/x-ndjson", headers=named)
