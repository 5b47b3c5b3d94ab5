"""Report uses of memories: `POST /v1/observations` asynchronously, `touch` for one memory synchronously."""

from __future__ import annotations

import os
import time
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from app.api.http import responses
from app.api.http.auth import Caller, needs
from app.api.http.idempotency import Outcome, key_of
from app.api.http.request_body import raw_body
from app.api.memories.ingest import trace
from app.api.memories.memories import id_of
from app.clients.redis.stream import Door
from app.domain.ingest import touch as touches
from app.domain.ingest.ids import RANDOM_BYTES, new_base
from app.queues import Nudger
from app.services.uses import reinforce

router = APIRouter(prefix="/v1", tags=["reinforcement"])

Writer = Annotated[Caller, Depends(needs("ingest"))]


@router.post("/observations", summary="Report uses of memories", status_code=202)
async def observe(
    caller: Writer, body: Annotated[bytes, Depends(raw_body(touches.Observation))], request: Request
) -> Response:
    """Queue the reinforcement of memories; unknown ids are ignored. Supports `Idempotency-Key` like ingest."""
    told = touches.encode(touches.observed(body, caller.tenant_id))
    base = new_base(time.time_ns() // 1_000_000, os.urandom(RANDOM_BYTES))
    key = key_of(request.scope)
    outcome = Outcome.of(body, "touches", base, 0, request.state.request_id)
    door: Door = request.app.state.door
    accepted = await door.accept(
        caller.tenant_id,
        base=base,
        memories=0,
        form="touches",
        request_id=outcome.request_id,
        trace=trace(request.scope),
        body=told,
        idempotency=None if key is None else outcome.under(key),
    )
    outcome = outcome.settled(accepted)
    if accepted.nudge:
        nudger: Nudger = request.app.state.nudger
        nudger.nudge()
    return responses.answer({"request_id": outcome.request_id}, 202)


@router.post("/memories/{memory_id}/touch", summary="Reinforce a memory immediately")
def touch(
    caller: Writer, memory_id: str, body: Annotated[bytes, Depends(raw_body(touches.OneTouch, is_optional=True))]
) -> Response:
    """Reinforce a memory and return its strength and score before and after. The body is optional.

    If `reinforced` is false, `why` gives the reason: `refractory` (the same session used it a moment ago) or `late`
    (`used_at` is before a recorded use; the use is counted but has no other effect).
    """
    wanted = id_of(memory_id)
    done = reinforce.touch(caller.tenant_id, wanted, touches.one(body, caller.tenant_id, wanted))
    shown = {
        "id": done.id,
        "strength": dict(zip(("before", "after"), done.strength, strict=True)),
        "score": dict(zip(("before", "after"), done.score, strict=True)),
        "access_count": done.access_count,
        "multiplier": done.multiplier,
        "reinforced": done.why is None,
    }
    return responses.answer(shown if done.why is None else shown | {"why": done.why})
