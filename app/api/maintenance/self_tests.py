"""`/v1/self-tests`: how the service's tests of its own memory went."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from app.api.http import shapes
from app.api.http.auth import Caller, needs
from app.services.evaluation import self_tests

router = APIRouter(prefix="/v1/self-tests", tags=["reviews"])

PAGE_MAX = 500


@router.get("", summary="List runs of self-tests, newest first")
def page(
    caller: Annotated[Caller, Depends(needs("read"))],
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50,
    cursor: str | None = None,
) -> Response:
    """By cursor. `results` has by kind how many tests have passed and failed; a run under way has none yet.

    `other_words` asks by a question in other words than the memory's. `recall` shows what recall brings up for that
    question; its `empty` is the number of recalls that brought nothing at all. Neither flags its memory.
    What failed is among `GET /v1/reviews?by=flagged`. No question and no answer of a test is kept.
    """
    found = self_tests.page(caller.tenant_id, shapes.place_in_cursor(cursor), limit)
    following = shapes.cursor_at(found[-1].started_at, found[-1].run_id) if len(found) == limit else None
    shown = []
    for run in found:
        fields = {"id": run.run_id, **asdict(run)}
        del fields["run_id"]
        shown.append(fields)
    return shapes.answer({"runs": shown, "next_cursor": following})
