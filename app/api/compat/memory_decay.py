"""`/memory-decay`: the HTTP API of memory-decay 0.1.3 (seed 003), served from one tenant's memories.

Its clients take a base URL, here that of the service followed by `/memory-decay`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from app.api.compat.detail_errors import DetailRoute
from app.api.http import responses
from app.api.http.auth import Caller, cache
from app.api.http.request_body import header, json_body
from app.api.memories.ingest import Ingest
from app.domain.ingest import sources
from app.domain.ingest.json_input import precompile
from app.domain.search.request import QUERY_MAX_CHARACTERS
from app.errors import NotAllowed, NotFound, Unavailable
from app.services.tenants import tenants
from app.services.ticks import decay_ticks, parameters, ticked_memories
from app.settings import settings
from app.store.ticks.decay_clocks import DecayClock
from app.store.ticks.ticked_memories import TickedMemory

PREFIX: Final = "/memory-decay"
TICKS_MAX: Final = 1000
PAGE_MAX: Final = 1000
ASSOCIATION_WEIGHT: Final = 0.5
ACTOR: Final = "memory-decay"
"""Actor in the audit log of requests without a key."""
_TICK_MAX: Final = 2**53

router = APIRouter(prefix=PREFIX, route_class=DetailRoute, include_in_schema=False)


@precompile
class StoreIn(msgspec.Struct, frozen=True):
    """A memory to store; unknown fields are ignored, as in memory-decay."""

    text: str
    importance: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.7
    mtype: Annotated[str, msgspec.Meta(min_length=1, max_length=256)] = "fact"
    category: Annotated[str, msgspec.Meta(max_length=256)] = ""
    associations: list[str] | None = None
    created_tick: Annotated[int, msgspec.Meta(ge=0, le=_TICK_MAX)] | None = None
    speaker: str | None = None


class SearchIn(msgspec.Struct, frozen=True):
    """A search."""

    query: Annotated[str, msgspec.Meta(max_length=QUERY_MAX_CHARACTERS)]
    top_k: Annotated[int, msgspec.Meta(ge=1, le=50)] = 5


class TickIn(msgspec.Struct, frozen=True):
    """A number of ticks."""

    count: Annotated[int, msgspec.Meta(ge=1, le=TICKS_MAX)] = 1


class ParametersIn(msgspec.Struct, frozen=True):
    """New values of parameters, by memory-decay's names."""

    params: dict[str, float | None]


class IntervalIn(msgspec.Struct, frozen=True):
    """The seconds of real time that count as a tick."""

    tick_interval_seconds: Annotated[float, msgspec.Meta(gt=0, le=31_536_000_000)]


class Session(msgspec.Struct, frozen=True):
    """The tenant that is served, the actor named in the audit log, the decay clock, and the writer of memories."""

    tenant_id: UUID
    actor: str
    clock: DecayClock
    writer: sources.Writer


def needs(scope: str) -> Callable[[Request], Awaitable[Session]]:
    """Return a dependency that requires a key of the served tenant with this scope, if keys are required."""

    async def session(request: Request) -> Session:
        caller = await _authenticate(request, scope)
        tenant = await run_in_threadpool(tenants.find_tenant, settings().compat_memory_decay or "")
        if tenant is None or tenant.status != "active":
            raise Unavailable("the tenant named in EBBING_COMPAT_MEMORY_DECAY doesn't exist: create it first")
        if caller is not None and caller.tenant_id != tenant.tenant_id:
            raise NotAllowed("this key belongs to another tenant than the one in EBBING_COMPAT_MEMORY_DECAY")
        actor = ACTOR if caller is None else caller.key_id
        clock = await run_in_threadpool(decay_ticks.open_clock, tenant.tenant_id, actor)
        writer = sources.UNKNOWN_WRITER if caller is None else caller.writer
        return Session(tenant.tenant_id, actor, clock, writer)

    return session


async def _authenticate(request: Request, scope: str) -> Caller | None:
    """Return the caller, or None if no key is required.

    Without keys, requests that a web page may have sent are refused: any page can make a browser send `POST /reset` to
    an address on the person's own machine.
    """
    if settings().compat_memory_decay_keys:
        return await cache.caller(request.scope, scope)
    if header(request.scope, b"origin") is not None:
        raise NotAllowed("requests of web pages need an API key: EBBING_COMPAT_MEMORY_DECAY_KEYS is off")
    if not _is_local_name(request.url.hostname or ""):
        raise NotAllowed("requests without a key must name the host by an IP address or a name without dots")
    return None


def _is_local_name(host: str) -> bool:
    """Return whether a host is an IP address or a name without dots: a web page can't point either at this service."""
    if "." not in host and ":" not in host:
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


Reader = Annotated[Session, Depends(needs("read"))]
Writer = Annotated[Session, Depends(needs("ingest"))]
Maintainer = Annotated[Session, Depends(needs("maintain"))]
Guardian = Annotated[Session, Depends(needs("privacy"))]


@router.get("/health")
def health(session: Reader) -> Response:
    """Return the current tick."""
    return responses.answer({"status": "ok", "current_tick": session.clock.tick})


@router.get("/stats")
def stats(session: Reader) -> Response:
    """Return the number of memories and the decay clock."""
    return responses.answer(
        {
            "num_memories": ticked_memories.count(session.tenant_id),
            "current_tick": session.clock.tick,
            "last_tick_time": session.clock.ticked_at.timestamp(),
        }
    )


@router.post("/store")
async def store(session: Writer, given: Annotated[StoreIn, Depends(json_body(StoreIn))], request: Request) -> Response:
    """Store a memory. The status is 202 if it isn't searchable in time: it becomes searchable later."""
    ids, is_found = await _store(session, [given], request)
    shown = {"id": ids[0], "text": given.text, "tick": session.clock.tick}
    return responses.answer(shown, 200 if is_found else 202)


@router.post("/store-batch")
async def store_batch(
    session: Writer, given: Annotated[list[StoreIn], Depends(json_body(list[StoreIn]))], request: Request
) -> Response:
    """Store memories together."""
    ids, is_found = await _store(session, given, request) if given else ([], True)
    shown = {"ids": ids, "count": len(ids), "tick": session.clock.tick}
    return responses.answer(shown, 200 if is_found else 202)


async def _store(session: Session, given: Sequence[StoreIn], request: Request) -> tuple[list[str], bool]:
    """Accept memories and wait until they are searchable; return their ids, and False if they aren't in time."""
    body = msgspec.json.encode([_as_ours(each, session.clock) for each in given])
    ingest: Ingest = request.app.state.ingest
    return await ingest.store(session.tenant_id, body, session.writer)


def _as_ours(given: StoreIn, clock: DecayClock) -> dict[str, Any]:
    created_tick = clock.tick if given.created_tick is None else given.created_tick
    associated = dict.fromkeys(given.associations or ())
    return {
        "text": given.text,
        "salience": given.importance,
        "kind": "semantic" if given.mtype == "fact" else "episodic",
        "speaker": given.speaker or None,
        "metadata": {"mtype": given.mtype, "category": given.category or given.mtype, "created_tick": created_tick},
        "links": [{"to": other, "weight": ASSOCIATION_WEIGHT} for other in associated],
    }


@router.post("/search")
def search(session: Reader, given: Annotated[SearchIn, Depends(json_body(SearchIn))]) -> Response:
    """Return the best memories; the first one becomes stronger if it fits well enough."""
    found = ticked_memories.find_memories(session.tenant_id, given.query, given.top_k, session.clock)
    results = [
        {
            "id": row.memory_id,
            "text": row.text,
            "score": round(score, 4),
            "storage_score": round(row.storage, 4),
            "retrieval_score": round(row.retrieval, 4),
            "category": row.category,
            "mtype": row.mtype,
            "created_tick": row.created_tick,
            "speaker": row.speaker,
        }
        for row, score in found
    ]
    return responses.answer({"results": results})


@router.post("/tick")
def tick(session: Maintainer, given: Annotated[TickIn, Depends(json_body(TickIn, is_optional=True))]) -> Response:
    """Advance the decay of all memories."""
    return responses.answer({"current_tick": decay_ticks.advance(session.tenant_id, given.count).tick})


@router.post("/auto-tick")
def auto_tick(session: Maintainer) -> Response:
    """Advance the decay by the complete ticks of real time since the last tick, at most 100."""
    done = decay_ticks.advance_by_time(session.tenant_id)
    shown = {"current_tick": done.clock.tick, "elapsed_seconds": round(done.elapsed_seconds, 1)}
    return responses.answer({"ticks_applied": done.applied, **shown})


@router.delete("/forget/{memory_id}")
def forget(session: Writer, memory_id: str) -> Response:
    """Hide a memory; it is erased after the grace period, in which its deletion can be cancelled."""
    try:
        ticked_memories.delete(session.tenant_id, _parse(memory_id), session.actor)
    except NotFound:
        raise _unknown(memory_id) from None
    return responses.answer({"deleted": memory_id})


@router.post("/reset")
def reset(session: Guardian) -> Response:
    """Hide all memories as `forget` does, and begin again at tick 0."""
    return responses.answer({"status": "ok", "cleared": ticked_memories.delete_all(session.tenant_id, session.actor)})


@router.get("/admin/memories")
def admin_memories(
    session: Reader,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    per_page: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50,
    category: Annotated[str | None, Query(max_length=256)] = None,
    mtype: Annotated[str | None, Query(max_length=256)] = None,
) -> Response:
    """Return a page of memories, those of the latest tick first."""
    found = ticked_memories.list_memories(
        session.tenant_id, category or None, mtype or None, (page - 1) * per_page, per_page
    )
    shown = {"memories": list(map(_shown, found.memories)), "total": found.total, "page": page, "per_page": per_page}
    return responses.answer(shown | {"current_tick": session.clock.tick})


@router.get("/admin/memories/{memory_id}")
def admin_memory(session: Reader, memory_id: str) -> Response:
    """Return a memory."""
    try:
        found = ticked_memories.get(session.tenant_id, _parse(memory_id))
    except NotFound:
        raise _unknown(memory_id) from None
    return responses.answer(_shown(found) | {"current_tick": session.clock.tick})


@router.get("/admin/memories/{memory_id}/history")
def admin_history(
    session: Reader,
    memory_id: str,
    start_tick: Annotated[int | None, Query(ge=-_TICK_MAX, le=_TICK_MAX)] = None,
    end_tick: Annotated[int | None, Query(ge=-_TICK_MAX, le=_TICK_MAX)] = None,
) -> Response:
    """Return the activation of a memory at the newest 200 ticks."""
    try:
        found = ticked_memories.list_history(session.tenant_id, _parse(memory_id), start_tick, end_tick)
    except NotFound:
        raise _unknown(memory_id) from None
    history = [
        {
            "tick": point.tick,
            "retrieval_score": round(point.retrieval, 4),
            "storage_score": round(point.storage, 4),
            "stability": round(point.stability, 4),
            "recorded_at": point.recorded_at.timestamp(),
        }
        for point in found
    ]
    return responses.answer({"memory_id": memory_id, "history": history, "current_tick": session.clock.tick})


@router.get("/admin/history/summary")
def admin_summary(session: Reader) -> Response:
    """Return averages over all memories, each category, and each of the newest 200 ticks."""
    found = ticked_memories.summarise(session.tenant_id)
    total = found.total
    categories = [
        {
            "category": each.category,
            "count": each.memories,
            "avg_retrieval": round(each.retrieval, 4),
            "avg_storage": round(each.storage, 4),
        }
        for each in found.categories
    ]
    timeline = [
        {
            "tick": each.tick,
            "avg_retrieval": round(each.retrieval, 4),
            "avg_storage": round(each.storage, 4),
            "avg_stability": round(each.stability, 4),
            "at_risk_count": each.at_risk,
        }
        for each in found.timeline
    ]
    return responses.answer(
        {
            "total_memories": total.memories,
            "avg_retrieval_score": round(total.retrieval, 4),
            "avg_storage_score": round(total.storage, 4),
            "at_risk_count": total.at_risk,
            "categories": categories,
            "timeline": timeline,
            "current_tick": session.clock.tick,
        }
    )


@router.get("/admin/decay-params")
def admin_parameters(session: Reader) -> Response:
    """Return the parameters of decay."""
    return responses.answer({"params": parameters.read(session.tenant_id)})


@router.put("/admin/decay-params")
def admin_set_parameters(
    session: Maintainer, given: Annotated[ParametersIn, Depends(json_body(ParametersIn))]
) -> Response:
    """Change parameters by a new version of the tenant's policy."""
    return responses.answer({"params": parameters.change(session.tenant_id, given.params, session.actor)})


@router.get("/admin/tick-interval")
def admin_interval(session: Reader) -> Response:
    """Return the seconds of real time that count as a tick."""
    return responses.answer({"tick_interval_seconds": session.clock.interval_seconds})


@router.put("/admin/tick-interval")
def admin_set_interval(session: Maintainer, given: Annotated[IntervalIn, Depends(json_body(IntervalIn))]) -> Response:
    """Set the seconds of real time that `auto-tick` counts as a tick."""
    decay_ticks.set_interval(session.tenant_id, given.tick_interval_seconds)
    return responses.answer({"tick_interval_seconds": given.tick_interval_seconds})


def _shown(row: TickedMemory) -> dict[str, Any]:
    return {
        "id": row.memory_id,
        "content": row.text,
        "mtype": row.mtype,
        "category": row.category,
        "importance": round(row.importance, 4),
        "speaker": row.speaker,
        "created_tick": row.created_tick,
        "storage_score": round(row.storage, 4),
        "retrieval_score": round(row.retrieval, 4),
        "stability": round(row.stability, 4),
        "last_activated_tick": row.created_tick,
        "retrieval_count": row.uses,
    }


def _parse(memory_id: str) -> UUID:
    try:
        return UUID(memory_id)
    except ValueError:
        raise _unknown(memory_id) from None


def _unknown(memory_id: str) -> NotFound:
    return NotFound(f"Memory {memory_id} not found")
