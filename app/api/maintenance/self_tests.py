"""`/v1/self-tests`: results of the retrieval self-tests."""

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
    """Return a page of runs. `results` has the number of passed and failed tests by kind; empty while running.

    `other_words` searches with a paraphrased question. `recall` runs a recall with this question; its `empty` is the
    number of recalls that returned nothing. These two kinds don't flag memories; failures of the other kinds are listed
    by `GET /v1/reviews?by=flagged`. Questions and answers of tests are not stored.
    """
    found = self_tests.page(caller.tenant_id, shapes.place_in_cursor(cursor), limit)
    following = shapes.cursor_at(found[-1].started_at, found[-1].run_id) if len(found) == limit else None
    shown = []
    for run in found:
        fields = {"id": run.run_id, **asdict(run)}
        del fields["run_id"]
        shown.append(fields)
    return shapes.answer({"runs": shown, "next_cursor": following})
