"""`POST /v1/forecast`: how many memories decay will put into each tier on the coming days."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Response

from app.api.http import shapes
from app.api.http.auth import Caller, needs
from app.api.http.body import body_of, decode
from app.domain.tiers.forecast import DAYS_MAX, Counts
from app.domain.tiers.tiers import DECAY_TIERS
from app.services.tiers import forecast
from app.services.tiers.forecast import Move, Wish

router = APIRouter(prefix="/v1", tags=["forecast"])


class Forecast(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What to look ahead to.

    Attributes:
        days: How many days, 0 to 3650.
        policy: Fields of the policy to try: the rest stays as it is. Without it there is no what-if.
        subject: Only memories about this subject.
    """

    days: Annotated[int, msgspec.Meta(ge=0, le=DAYS_MAX)] = 90
    policy: dict[str, Any] | None = None
    subject: Annotated[str, msgspec.Meta(min_length=1, max_length=512)] | None = None

    def __post_init__(self) -> None:
        """Refuse NUL characters, which no memory can hold.

        Raises:
            ValueError: The subject has one; a `ValidationError` while decoding.
        """
        if self.subject and "\0" in self.subject:
            raise ValueError("a NUL character can't be searched for")


@router.post("/forecast", summary="Tiers on the coming days, as things are and under another policy")
def outlook(caller: Annotated[Caller, Depends(needs("read"))], body: Annotated[bytes, Depends(body_of)]) -> Response:
    """Memories by tier for each day, as decay alone will have it; nothing is changed."""
    wanted = decode(body, Forecast)
    found = forecast.forecast_tiers(caller.tenant_id, Wish(wanted.days, wanted.policy, wanted.subject))
    shown: dict[str, Any] = {"as_of": found.as_of, "days": _days(found.dates, found.counts)}
    if found.changed is not None:
        shown |= {"what_if": _days(found.dates, found.changed), "moves": [_move(move) for move in found.moves]}
    return shapes.answer(shown)


def _days(dates: list[date], counts: Counts) -> list[dict[str, Any]]:
    return [
        {"date": day, **dict(zip(DECAY_TIERS, row, strict=True))}
        for day, row in zip(dates, counts.tolist(), strict=True)
    ]


def _move(move: Move) -> dict[str, Any]:
    return {"from": move.source, "to": move.target, "memories": move.memories, "ids": move.ids}
