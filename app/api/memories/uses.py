"""Report uses of memories: `POST /v1/observations` asynchronously, `touch` for one memory synchronously."""

from __future__ import annotations

import os
import time
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from app.api.http import responses
from app.api.http.auth import Writer
from app.api.http.idempotency import Outcome, key_of
from app.api.http.path_ids import MemoryId
from app.api.http.request_body import raw_body
from app.api.http.request_ids import get_ids
from app.api.memories.ingest import trace
from app.clients.redis.stream import StreamWriter
from app.domain.ingest import uses
from app.domain.ingest.ids import RANDOM_BYTES, generate_base
from app.queues import Nudger
from app.services.uses import reinforcement

router = APIRouter(prefix="/v1", tags=["reinforcement"])


@router.post("/observations", summary="Report uses of memories", status_code=202)
async def observe(
    caller: Writer, body: Annotated[bytes, Depends(raw_body(uses.Observation))], request: Request
) -> Response:
    """Report the memories that an answer used: they become stronger within seconds, which postpones their fading.

    Send the `ids` of the recall or search whose results were used; leave out those that weren't. Unknown ids are
    ignored. Supports `Idempotency-Key`.
    """
    told = uses.encode(uses.parse_observation(body, caller.tenant_id))
    base = generate_base(time.time_ns() // 1_000_000, os.urandom(RANDOM_BYTES))
    key, ids = key_of(request.scope), get_ids(request.scope)
    outcome = Outcome.for_request(body, "touches", base, 0, ids.generated)
    door: StreamWriter = request.app.state.door
    accepted = await door.append(
        caller.tenant_id,
        base=base,
        memories=0,
        form="touches",
        trace=trace(request.scope),
        body=told,
        idempotency=None if key is None else outcome.under(key),
    )
    outcome = outcome.settled(accepted, body, "touches")
    if accepted.nudge:
        nudger: Nudger = request.app.state.nudger
        nudger.nudge()
    return responses.answer({"request_id": outcome.request_id or ids.shown}, 202)


@router.post("/memories/{memory_id}/touch", summary="Reinforce a memory immediately")
def touch(
    caller: Writer, memory_id: MemoryId, body: Annotated[bytes, Depends(raw_body(uses.OneTouch, is_optional=True))]
) -> Response:
    """Reinforce a memory and return its strength and score before and after. The body is optional.

    If `reinforced` is false, `why` gives the reason: `refractory` (the same session has just reinforced it) or `late`
    (`used_at` is before a recorded use; the use is counted but has no other effect).
    """
    done = reinforcement.touch_memory(caller.tenant_id, memory_id, uses.parse_touch(body, caller.tenant_id, memory_id))
    shown = {
        **responses.pick(done, "id", "access_count", "multiplier"),
        "strength": dict(zip(("before", "after"), done.strength, strict=True)),
        "score": dict(zip(("before", "after"), done.score, strict=True)),
        "reinforced": done.why is None,
    }
    return responses.answer(shown if done.why is None else shown | {"why": done.why})
