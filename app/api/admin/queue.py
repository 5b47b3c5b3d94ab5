"""`/v1/admin/queue`: show whether Redis is the installation's and what it lost; accept a new Redis as the queue."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Response

from app.api.http import responses
from app.api.http.auth import Admin
from app.services.ingest import witness

router = APIRouter(prefix="/v1/admin/queue", tags=["admin"])


@router.get("", summary="Show the queue's identity and losses")
def show_queue(_: Admin) -> Response:
    """Return why Redis is refused (`refused`, null if it isn't), the number of lost requests, and `gaps`, newest first.

    A gap has a tenant, two times, and the number of its requests and memories accepted between them and then lost.
    """
    return responses.answer(
        {
            "refused": witness.diagnose_queue(),
            "lost_requests": witness.count_lost(),
            "gaps": [asdict(gap) for gap in witness.list_gaps()],
        }
    )


@router.post("/accept", summary="Accept the current Redis")
def accept_queue(caller: Admin) -> Response:
    """Accept the current Redis as the installation's queue, and mark the gaps found so far as accepted.

    Requests that the former Redis accepted and that weren't stored are lost. They are counted as gaps within a minute.
    """
    witness.accept_queue(caller.tenant_id, caller.key_id)
    return responses.answer({"refused": witness.diagnose_queue()})
