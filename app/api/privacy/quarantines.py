"""`/v1/quarantines`: hide everything that an API key or a source wrote in a period, and show it again."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from app.api.http import responses
from app.api.http.auth import Guardian
from app.api.http.cursors import Paged
from app.api.http.path_ids import QuarantineId
from app.api.http.request_body import json_body
from app.domain.ingest.quarantine import NewQuarantine, Terms
from app.services.privacy import quarantines
from app.store.privacy.quarantines import Quarantine

router = APIRouter(prefix="/v1/quarantines", tags=["privacy"])


@router.post("", summary="Place a quarantine", status_code=201)
def place(caller: Guardian, given: Annotated[NewQuarantine, Depends(json_body(NewQuarantine))]) -> Response:
    """Hide what an API key or a source wrote in a period: no search, recall, list or read returns it.

    Without `confirm`, the response is 200 with the number of memories that would be hidden, and nothing changes. With
    `confirm`, summaries made from these memories are hidden too, until they are made again without them. Nothing is
    deleted: lifting the quarantine shows the same memories again. Erasures, retention periods and legal holds apply to
    them as before, and exports of a person contain them. A request with the conditions of a
    quarantine in force returns that quarantine.
    """
    if not given.confirm:
        terms, counts = quarantines.preview(caller.tenant_id, given)
        return responses.answer(_render_terms(terms) | counts._asdict())
    return responses.answer(_render(quarantines.place(caller.tenant_id, given, caller.key_id)), 201)


@router.get("", summary="List quarantines, newest first")
def page(caller: Guardian, wanted: Paged, *, lifted: bool = False) -> Response:
    """Return a page of quarantines; with `lifted`, include lifted ones."""
    found = quarantines.list_quarantines(caller.tenant_id, *wanted, lifted=lifted)
    return responses.page("quarantines", found, _render)


@router.get("/{quarantine_id}", summary="Get a quarantine")
def get(caller: Guardian, quarantine_id: QuarantineId) -> Response:
    """Return a quarantine; `memories` counts the memories that it hides now, summaries included.

    `status` is `placing` while memories are still being hidden, then `placed`, `lifting` and `lifted`.
    """
    return responses.answer(_render(quarantines.get(caller.tenant_id, quarantine_id)))


@router.post("/{quarantine_id}/lift", summary="Lift a quarantine")
def lift(caller: Guardian, quarantine_id: QuarantineId) -> Response:
    """Show the memories again, each in its tier, unless an erasure or another quarantine covers it. Safe to repeat.

    409 while the quarantine's `status` is `placing`.
    """
    return responses.answer(_render(quarantines.lift(caller.tenant_id, quarantine_id, caller.key_id)))


def _render_terms(terms: Terms) -> dict[str, Any]:
    return responses.pick(terms, "key_id", "source", "after", "before")


def _render(found: Quarantine) -> dict[str, Any]:
    return {
        "id": found.quarantine_id,
        **_render_terms(found.terms),
        **responses.pick(found, "status", "memories", "placed_at", "placed_by", "lifted_at", "lifted_by"),
    }
