"""`POST /v1/search`: find memories by words and by meaning.

A bare ASGI endpoint, which saves the time of FastAPI's routing and dependencies. The route of the same path describes
it in OpenAPI.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Response
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from app import metrics
from app.api.http import responses
from app.api.http.auth import Caller, cache, needs
from app.api.http.problem_responses import as_ours, respond
from app.api.http.request_body import decode, json_body, read
from app.api.http.request_ids import get_ids
from app.domain.search.request import SearchRequest
from app.services.search import search_records
from app.services.search.search import find_memories
from app.services.uses import reinforcement

router = APIRouter(prefix="/v1", tags=["search"])


async def serve_search(scope: Scope, receive: Receive, send: Send) -> None:
    """Handle one request as an ASGI application."""
    try:
        caller = await cache.caller(scope, "read")
        request = decode(await read(scope, receive), SearchRequest)
        response = await run_in_threadpool(_answer, caller.tenant_id, request)
    except Exception as error:  # noqa: BLE001 - every failure gets a response
        response = respond(as_ours(error), get_ids(scope), "POST /v1/search")
    await response(scope, receive, send)


@router.post("/search", summary="Find memories by words and by meaning")
def search(
    caller: Annotated[Caller, Depends(needs("read"))],
    request: Annotated[SearchRequest, Depends(json_body(SearchRequest))],
) -> Response:
    """Return the best memories for a query, best first.

    Results close to the best are reinforced, unless `reinforce` is false. `reranked` is true if a reranker ordered
    them.
    """
    return _answer(caller.tenant_id, request)


def _answer(tenant_id: UUID, request: SearchRequest) -> Response:
    """Search, queue the results' uses and return the response."""
    searched_at, started = datetime.now(UTC), time.perf_counter()
    found = find_memories(tenant_id, request)
    took = time.perf_counter() - started
    metrics.SEARCH_SECONDS.observe(took)
    if found.uses:
        reinforcement.queue_uses(tenant_id, found.uses, request.session)
    shown = responses.answer({"results": found.results, "reranked": found.reranked, "took_ms": round(took * 1000, 2)})
    if found.gathered is not None:
        # Runs after the response is sent.
        shown.background = BackgroundTask(
            search_records.record_search, tenant_id, request, found.gathered, found.results, searched_at
        )
    return shown
