"""`/v1/subjects/{subject}`: how much is held about a person, and the short way to erase it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response

from app.api import shapes
from app.api.auth import Caller, needs
from app.api.erasures import shown
from app.domain.hold import Meant
from app.domain.memory import NAME_MAX_CHARACTERS
from app.domain.privacy.clocks import Law
from app.services import erasures, subjects
from app.services.erasures import Asked

router = APIRouter(prefix="/v1/subjects", tags=["privacy"])

Guardian = Annotated[Caller, Depends(needs("privacy"))]
Name = Annotated[str, Path(min_length=1, max_length=NAME_MAX_CHARACTERS, pattern=r"^[^\x00]*$")]


@router.get("/{subject:path}", summary="How much is held about a person")
def get(caller: Guardian, subject: Name) -> Response:
    """Counts of memories by tier, hidden and held, and of open erasures; all 0 for somebody who isn't known."""
    found = subjects.get(caller.tenant_id, subject)
    tiers = {"active": found.active, "archived": found.archived, "cold": found.cold}
    counts = {"hidden": found.hidden, "held": found.held, "open_erasures": found.open_erasures}
    return shapes.answer({"subject": subject, "memories": tiers} | counts)


@router.delete("/{subject:path}", summary="Erase a person's data", status_code=202)
def erase(
    caller: Guardian, subject: Name, kind: Law = "user", grace_days: Annotated[int | None, Query(ge=0, le=30)] = None
) -> Response:
    """The same as `POST /v1/privacy/erasures` with this subject: hidden at once, erased when the grace is over."""
    asked = Asked(Meant(subject=subject), kind, grace_days)
    return shapes.answer(shown(erasures.request(caller.tenant_id, asked, caller.key_id)), 202)
