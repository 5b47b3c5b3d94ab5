"""`POST /v1/recall`: return memories relevant to a conversation."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Depends, Response

from app import metrics
from app.api.http import responses
from app.api.http.auth import Reader
from app.api.http.request_body import json_body
from app.domain.recall.request import RecallRequest
from app.services.recall.recall import recall_memories

router = APIRouter(prefix="/v1", tags=["search"])


@router.post("/recall", summary="Recall memories for a conversation")
def bring(caller: Reader, request: Annotated[RecallRequest, Depends(json_body(RecallRequest))]) -> Response:
    """Return the relevant memories, and a `text` with them for your prompt, within a token budget.

    Each memory exceeds one of the `thresholds`: `least` if you set it, otherwise those of the policy, by field name.
    With `explain`, each memory names the threshold that it exceeds. Recall does not reinforce memories: report the
    `ids` that were used with `POST /v1/observations`.
    """
    started = time.perf_counter()
    brought = recall_memories(caller.tenant_id, request)
    took = time.perf_counter() - started
    metrics.SEARCH_SECONDS.observe(took)
    shown = {
        **responses.pick(brought, "memories", "ids", "tokens", "thresholds"),
        "text": brought.context,
        "context": brought.context,  # deprecated name of `text`
        "took_ms": round(took * 1000, 2),
    }
    return responses.answer(shown)
