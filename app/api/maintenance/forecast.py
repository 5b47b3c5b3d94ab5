"""`POST /v1/forecast`: predict the number of memories per tier on the coming days."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Response

from app.api.http import responses
from app.api.http.auth import Reader
from app.api.http.request_body import json_body
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.domain.tiers.forecast import DAYS_MAX, Counts
from app.services.tiers import forecast
from app.services.tiers.forecast import ForecastOptions, ImmediateMove

router = APIRouter(prefix="/v1", tags=["forecast"])


class Forecast(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Options of a forecast.

    Attributes:
        days: Number of days, 0 to 3650.
        policy: Policy fields to change for a what-if forecast; omitted for none.
        subject: Only memories about this subject.
    """

    days: Annotated[int, msgspec.Meta(ge=0, le=DAYS_MAX)] = 90
    policy: dict[str, Any] | None = None
    subject: Annotated[str, msgspec.Meta(min_length=1, max_length=512)] | None = None

    def __post_init__(self) -> None:
        """Reject NUL characters, which can't be stored.

        Raises:
            ValueError: The subject contains one; becomes a `ValidationError` while decoding.
        """
        if self.subject and "\0" in self.subject:
            raise ValueError("contains a NUL character, which can't be stored")


@router.post("/forecast", summary="Forecast memories per tier, optionally under a changed policy")
def outlook(caller: Reader, wanted: Annotated[Forecast, Depends(json_body(Forecast))]) -> Response:
    """Return the number of memories per tier and day, as predicted from decay alone. Read-only."""
    found = forecast.forecast_tiers(caller.tenant_id, ForecastOptions(wanted.days, wanted.policy, wanted.subject))
    shown: dict[str, Any] = {
        "as_of": found.as_of,
        "keep_chance_above": found.keep_above,
        "days": _days(found.dates, found.counts),
    }
    if found.changed is not None:
        shown |= {"what_if": _days(found.dates, found.changed), "moves": [_move(move) for move in found.moves]}
        shown["found_threshold"] = found.found and responses.found_threshold(found.found)
    return responses.answer(shown)


def _days(dates: list[date], counts: Counts) -> list[dict[str, Any]]:
    return [
        {"date": day, **dict(zip(DECAY_TIERS, row, strict=True))}
        for day, row in zip(dates, counts.tolist(), strict=True)
    ]


def _move(move: ImmediateMove) -> dict[str, Any]:
    return {"from": move.source, "to": move.target, "memories": move.memories, "ids": move.ids}
