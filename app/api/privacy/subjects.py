"""`/v1/subjects/{subject}`: count a subject's data, and shortcuts to export and erase it."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Response
from starlette.convertors import PathConvertor, register_url_convertor

from app.api.http import responses
from app.api.http.auth import Guardian
from app.api.privacy.erasures import render_erasure
from app.api.privacy.exports import render_export
from app.domain.ingest.memory import NAME_MAX_CHARACTERS
from app.domain.privacy.export import ExportKind, NewExport
from app.domain.privacy.legal_deadlines import Law
from app.domain.privacy.legal_hold import Scope
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from app.services.memories import subjects
from app.services.privacy import export_requests


class _Name(PathConvertor):
    """Path parameter that matches the rest of the path, including slashes and line breaks."""

    regex = r"[\s\S]*"


register_url_convertor("name", _Name())
router = APIRouter(prefix="/v1/subjects", tags=["privacy"])

Name = Annotated[str, Path(min_length=1, max_length=NAME_MAX_CHARACTERS, pattern=r"^[^\x00]*$")]


@router.get("/{subject:name}", summary="Count a subject's data")
def get(caller: Guardian, subject: Name) -> Response:
    """Return counts of memories by tier, hidden and held memories, exports and open erasures; 0 for unknown subjects.

    `shortcuts` names the calls to export and to erase the data.
    """
    found = subjects.get(caller.tenant_id, subject)
    tiers = {"active": found.active, "archived": found.archived, "cold": found.cold}
    counts = {name: getattr(found, name) for name in ("hidden", "held", "exports", "open_erasures")}
    here = f"/v1/subjects/{quote(subject, safe='')}"
    shortcuts = {"export": f"POST {here}", "erase": f"DELETE {here}"}
    return responses.answer({"subject": subject, "memories": tiers, **counts, "shortcuts": shortcuts})


@router.post("/{subject:name}", summary="Export a subject's data", status_code=202)
def export(caller: Guardian, subject: Name, kind: ExportKind = "access", law: Law = "user") -> Response:
    """Start an export, like `POST /v1/privacy/exports` with this subject."""
    made = export_requests.request_export(caller.tenant_id, NewExport(subject, kind, law), caller.key_id)
    return responses.answer(render_export(made), 202)


@router.delete("/{subject:name}", summary="Erase a subject's data", status_code=202)
def erase(
    caller: Guardian, subject: Name, kind: Law = "user", grace_days: Annotated[int | None, Query(ge=0, le=30)] = None
) -> Response:
    """Request an erasure, like `POST /v1/privacy/erasures` with this subject."""
    asked = ErasureOptions(Scope(subject=subject), kind, grace_days)
    return responses.answer(render_erasure(requests.request(caller.tenant_id, asked, caller.key_id)), 202)
