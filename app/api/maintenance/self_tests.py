"""`/v1/self-tests`: results of the retrieval self-tests."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from app.api.http import responses
from app.api.http.auth import Caller, needs
from app.api.http.cursors import Paged
from app.services.evaluation import self_tests
from app.store.self_tests import SelfTestRun

router = APIRouter(prefix="/v1/self-tests", tags=["reviews"])


@router.get("", summary="List runs of self-tests, newest first")
def page(caller: Annotated[Caller, Depends(needs("read"))], wanted: Paged) -> Response:
    """Return a page of runs. `results` has the number of passed and failed tests by kind; empty while running.

    `other_words` searches with a paraphrased question. `recall` runs a recall with this question; its `empty` is the
    number of recalls that returned nothing. These two kinds don't flag memories; failures of the other kinds are listed
    by `GET /v1/reviews?by=flagged`. Questions and answers of tests are not stored.
    """
    return responses.page("runs", self_tests.list_runs(caller.tenant_id, *wanted), _shown)


def _shown(run: SelfTestRun) -> dict[str, Any]:
    shown = asdict(run)
    return {"id": shown.pop("run_id"), **shown}
