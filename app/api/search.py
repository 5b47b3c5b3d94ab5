"""`POST /v1/search`."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Depends, Response

from app import metrics
from app.api import shapes
from app.api.auth import Caller, needs
from app.api.body import body_of, decode
from app.domain.retrieval import SearchRequest
from app.services.search import search as search_memories

router = APIRouter(prefix="/v1", tags=["search"])


@router.post("/search", summary="Find memories by words and by meaning")
def search(caller: Annotated[Caller, Depends(needs("read"))], body: Annotated[bytes, Depends(body_of)]) -> Response:
    """The best memories for a query, best first."""
    request = decode(body, SearchRequest)
    started = time.perf_counter()
    results = search_memories(caller.tenant_id, request)
    took = time.perf_counter() - started
    metrics.SEARCH_SECONDS.observe(took)
    return shapes.answer({"results": results, "took_ms": round(took * 1000, 2)})
