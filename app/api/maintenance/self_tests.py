"""`/v1/self-tests`: results of the retrieval self-tests."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Response

from app.api.http import responses
from app.api.http.auth import Reader
from app.api.http.cursors import Paged
from app.services.evaluation import self_tests

router = APIRouter(prefix="/v1/self-tests", tags=["reviews"])


@router.get("", summary="List runs of self-tests, newest first")
def page(caller: Reader, wanted: Paged) -> Response:
    """Return a page of runs. `results` has the number of passed and failed tests by kind; empty while running.

    `other_words` searches with a paraphrased question. `recall` runs a recall with this question; its `empty` is the
    number of recalls that returned nothing. These two kinds don't flag memories; failures of the other kinds are listed
    by `GET /v1/reviews?by=flagged`. Questions and answers of tests are not stored.
    """
    found = self_tests.list_runs(caller.tenant_id, *wanted)
    return responses.page("runs", found, partial(responses.render, run_id="id"))
