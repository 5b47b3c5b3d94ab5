"""Whether it lives, whether it is ready, and its numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app import metrics
from app.api import shapes
from app.api.auth import Caller, needs
from app.services import health, stats
from app.services.passing import is_passing
from app.services.steps import STEPS

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
    return shapes.answer(asdict(stats.of_tenant(caller.tenant_id)))


@router.get("/metrics", summary="Metrics for Prometheus", response_class=PlainTextResponse)
def prometheus() -> Response:
    """The process's own metrics, the workers' counters, and what waits in each lane."""
    registry = CollectorRegistry()
    registry.register(_Shared())
    text = generate_latest(REGISTRY) + generate_latest(registry)
    return Response(text, media_type=CONTENT_TYPE_LATEST)


class _Shared(Collector):
    """What is known from Redis and PostgreSQL; left out, and said so, while they are away."""

    def collect(self) -> Iterator[Metric]:
        reachable = GaugeMetricFamily("ebbing_stores_reachable", "Whether PostgreSQL and Redis answered this scrape.")
        try:
            found = list(self._asked())
        except Exception as error:
            if not is_passing(error):
                raise
            found = []
        reachable.add_metric([], float(bool(found)))
        yield reachable
        yield from found

    def _asked(self) -> Iterator[Metric]:
        counted = metrics.counts()
        for name, description in metrics.WORK.items():
            yield CounterMetricFamily(f"ebbing_{name}", description, value=counted[name])
        depth = GaugeMetricFamily("ebbing_lane_depth", "What waits in a lane.", labels=["lane"])
        age = GaugeMetricFamily(
            "ebbing_lane_oldest_age_seconds", "Age of the oldest that waits in a lane.", labels=["lane"]
        )
        for name, lane in stats.of_lanes().items():
            depth.add_metric([name], lane.depth)
            age.add_metric([name], lane.oldest_age_seconds)
        silent = GaugeMetricFamily(
            "ebbing_lane_silent_seconds", "Since a lane's worker was last heard of.", labels=["lane"]
        )
        for name, seconds in health.heartbeat_ages().items():
            if seconds is not None:
                silent.add_metric([name], seconds)
        yield from (depth, age, silent)
        yield from _nights()


def _nights() -> Iterator[Metric]:
    """How the last nights of all tenants went; no label names one."""
    found = stats.nights()
    for name, description, value in (
        ("overdue_seconds", "Since the night was due that is overdue for longest.", found.overdue_seconds),
        ("late_seconds", "How late the latest of the tenants' last nights began.", found.late_seconds),
        ("seconds", "How long the longest of the tenants' last nights took.", found.seconds),
        ("cut_short", "Tenants whose last night was cut short.", found.cut_short),
    ):
        yield GaugeMetricFamily(f"ebbing_night_{name}", description, value=value)
    failed = GaugeMetricFamily("ebbing_night_failed", "Tenants whose last night failed at a step.", labels=["step"])
    for step, tenants in {**dict.fromkeys(STEPS, 0), **found.failed}.items():
        failed.add_metric([step], tenants)
    yield failed
