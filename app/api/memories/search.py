"""`POST /v1/search`: find memories by words and by meaning."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from starlette.background import BackgroundTask

from app import metrics
from app.api.http import responses
from app.api.http.auth import Caller, needs
from app.api.http.request_body import json_body
from app.domain.search.request import SearchRequest
from app.services.search import search_records
from app.services.search.search import find_memories
from app.services.uses import reinforcement

router = APIRouter(prefix="/v1", tags=["search"])


@router.post("/search", summary="Find memories by words and by meaning")
def search(
    caller: Annotated[Caller, Depends(needs("read"))],
    request: Annotated[SearchRequest, Depends(json_body(SearchRequest))],
    http: Request,
) -> Response:
    """Return the best memories for a query, best first.

    Results close to the best are reinforced, unless `reinforce` is false. `reranked` is true if a reranker ordered
    them.
    """
    searched_at, started = datetime.now(UTC), time.perf_counter()
    found = find_memories(caller.tenant_id, request)
    took = time.perf_counter() - started
    metrics.SEARCH_SECONDS.observe(took)
    if found.uses:
        reinforcement.queue_uses(caller.tenant_id, found.uses, request.session, http.state.request_id)
    shown = responses.answer({"results": found.results, "reranked": found.reranked, "took_ms": round(took * 1000, 2)})
    if found.gathered is not None:
        # Runs after the response is sent.
        shown.background = BackgroundTask(
            search_records.record_search, caller.tenant_id, request, found.gathered, found.results, searched_at
        )
    return shown
