"""`/v1/privacy/exports`: export a subject's data as a zip file created by a job."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response
from fastapi.responses import StreamingResponse

from app.api.http import responses
from app.api.http.auth import Guardian
from app.api.http.cursors import Paged
from app.api.http.path_ids import ExportId
from app.api.http.request_body import json_body
from app.api.privacy.near_names import describe_names, warn_unknown
from app.domain.privacy.export import NewExport
from app.services.privacy import export_archive, export_requests
from app.store.privacy.exports import Export

router = APIRouter(prefix="/v1/privacy/exports", tags=["privacy"])


@router.post(
    "",
    summary="Export a subject's data",
    status_code=202,
    responses={200: {"description": "With `dry_run`: the number of memories, the right, the law and the deadline"}},
)
def request(caller: Guardian, wanted: Annotated[NewExport, Depends(json_body(NewExport))]) -> Response:
    """Start an export of a subject's data.

    `access` contains all stored data with scores, reasons, lineage and history; `portable` only data that the subject
    provided. When `status` is `ready`, the file can be downloaded until `expires_at`. 409 if no master key is
    configured, the subject is being erased, or there are more than a million memories.

    With `request_id`, the export carries out a request recorded with `POST /v1/privacy/requests`: it has the request's
    id, right and law, and completes the request. 409 if the request is answered or has an export that hasn't failed; a
    failed one is replaced. Without `request_id`, the request is recorded now; its deadline counts from `received_at`.

    If no stored memory has the subject, `warning` says so and `near` lists subjects with similar names. With `dry_run`,
    nothing is stored: the response is 200 with the number of memories, and `other_spellings` lists subjects with the
    same name in another spelling or order, which the export doesn't cover.
    """
    if wanted.dry_run:
        found = export_requests.preview_export(caller.tenant_id, wanted)
        shown = {"kind": found.kind, "memories": found.memories}
        shown |= responses.pick(found.entry, "law", "received_at", "due_at", "controller", "case_reference")
        return responses.answer(shown | describe_names(caller.tenant_id, wanted.subject))
    known = warn_unknown(caller.tenant_id, wanted.subject)
    made = export_requests.request_export(caller.tenant_id, wanted, caller.key_id)
    return responses.answer(render_export(made) | known, 202)


@router.get("", summary="List exports, newest first")
def page(caller: Guardian, wanted: Paged) -> Response:
    """Return a page of exports, including expired ones, which no longer name their subject."""
    return responses.page("exports", export_requests.list_exports(caller.tenant_id, *wanted), render_export)


@router.get("/{export_id}", summary="Get an export")
def get(caller: Guardian, export_id: ExportId) -> Response:
    """Return the status of an export and its number of lines."""
    return responses.answer(render_export(export_requests.get(caller.tenant_id, export_id)))


@router.get("/{export_id}/file", summary="Download an export")
def fetch(caller: Guardian, export_id: ExportId) -> Response:
    """Return a zip with JSON Lines, a readable page and a manifest; 503 until it is ready, 409 after it has expired."""
    named = {"Content-Disposition": f'attachment; filename="ebbing-export-{export_id}.zip"'}
    made = export_archive.stream_archive(caller.tenant_id, export_id, caller.key_id)
    return StreamingResponse(made, media_type="application/zip", headers=named)


def render_export(each: Export) -> dict[str, Any]:
    """Return an export as JSON."""
    return {
        "id": each.export_id,
        **responses.pick(each, "kind", "status", "subject", "reason", "law", "requested_at", "requested_by"),
        **responses.pick(each, "finished_at", "expires_at", "job_id", "counts"),
    }
