"""Liveness, readiness, statistics and metrics."""

from __future__ import annotations

from dataclasses import asdict
from hmac import compare_digest

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.concurrency import run_in_threadpool

from app.api.http import metrics_endpoint, responses
from app.api.http.auth import Reader, cache
from app.api.http.health_listener import describe_liveness, describe_readiness
from app.errors import NotFound
from app.services.monitoring import stats
from app.settings import settings

router = APIRouter(tags=["status"])


@router.get("/healthz", summary="Liveness check")
async def healthz() -> Response:
    """Return 200 without checking any dependency."""
    status, shown = describe_liveness()
    return responses.answer(shown, status)


@router.get("/readyz", summary="Readiness check")
def readyz() -> Response:
    """Return 200 if PostgreSQL, its schema and Redis are healthy and 503 otherwise, with the state of each."""
    status, shown = describe_readiness()
    return responses.answer(shown, status)


@router.get("/v1/stats", summary="Statistics of the caller's tenant")
def of_tenant(caller: Reader) -> Response:
    """Return counts of memories, pending work, dead letters, and the last nightly run and self-tests."""
    return responses.answer(asdict(stats.tenant_stats(caller.tenant_id)))


@router.get("/metrics", summary="Metrics for Prometheus", response_class=PlainTextResponse)
async def prometheus(request: Request) -> Response:
    """Return metrics of this process, counters of the workers, and backlogs.

    Public unless `EBBING_METRICS_TOKEN` is set: then it requires this token or an API key with the scope `admin`.
    """
    if not settings().metrics_enabled:
        raise NotFound("metrics are disabled by EBBING_METRICS_ENABLED")
    if not _has_token(request):
        await cache.caller(request.scope, "admin")
    return Response(await run_in_threadpool(metrics_endpoint.text), media_type=CONTENT_TYPE_LATEST)


def _has_token(request: Request) -> bool:
    """Return True if the request has the metrics token, or none is configured."""
    token = settings().metrics_token
    if token is None:
        return True
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and compare_digest(given.strip().encode(), token.get_secret_value().encode())
