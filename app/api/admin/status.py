"""Whether it lives, whether it is ready, and its numbers."""

from __future__ import annotations

from dataclasses import asdict
from hmac import compare_digest
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.concurrency import run_in_threadpool

from app.api.http import exposition, shapes
from app.api.http.auth import Caller, cache, needs
from app.errors import NotFound
from app.services.monitoring import health, stats
from app.settings import settings

router = APIRouter(tags=["status"])


@router.get("/healthz", summary="Is the process alive?")
async def healthz() -> Response:
    """Answers without asking anything."""
    return shapes.answer({"status": "ok"})


@router.get("/readyz", summary="Can it serve?")
def readyz() -> Response:
    """200 when PostgreSQL, its schema and Redis are well, else 503; names each."""
    found = health.dependencies()
    well = all(dependency.well for dependency in found)
    shown = {
        "status": "ready" if well else "not ready",
        "dependencies": [asdict(dependency) for dependency in found],
    }
    return shapes.answer(shown, 200 if well else 503)


@router.get("/v1/stats", summary="Numbers of the caller's tenant")
def of_tenant(caller: Annotated[Caller, Depends(needs("read"))]) -> Response:
    """What is kept, what waits, what failed."""
    return shapes.answer(asdict(stats.tenant_stats(caller.tenant_id)))


@router.get("/metrics", summary="Metrics for Prometheus", response_class=PlainTextResponse)
async def prometheus(request: Request) -> Response:
    """The process's own metrics, the workers' counters, and what waits in each lane.

    Open, unless `EBBING_METRICS_TOKEN` is set: then it takes that, or an API key of scope `admin`.
    """
    if not settings().metrics_enabled:
        raise NotFound("metrics are off: EBBING_METRICS_ENABLED")
    if not _has_token(request):
        await cache.caller(request.scope, "admin")
    return Response(await run_in_threadpool(exposition.text), media_type=CONTENT_TYPE_LATEST)


def _has_token(request: Request) -> bool:
    """Whether the token of metrics was given, or none is wanted."""
    token = settings().metrics_token
    if token is None:
        return True
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and compare_digest(given.strip().encode(), token.get_secret_value().encode())
