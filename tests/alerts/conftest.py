"""Fixtures: the API in this process without workers, scraped by a simulated Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.clients.redis.backlog import Backlog
from app.services.monitoring import fleet_gauges
from tests.alerts.watch import Watch
from tests.api.caller import Api, standing_routes
from tests.service import Service

GIB = 1 << 30


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Report a 10 GiB disk whose free bytes a test can change, independent of the machine's disk."""
    room = {"free": 5 * GIB}

    class Usage:
        total = 10 * GIB

        @property
        def free(self) -> int:
            return room["free"]

    monkeypatch.setattr("app.services.monitoring.probes.shutil.disk_usage", lambda _: Usage())
    return room


@pytest.fixture
def api(service: Service) -> Iterator[Api]:
    with Api(service, standing_routes()) as started:
        yield started


@pytest.fixture
def watch(api: Api, disk: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """A watch that has already scraped a healthy service; on teardown promtool must confirm its results.

    The service's clock is advanced together with the watch's clock.
    """

    def scrape() -> str:
        fleet_gauges.refresh(thoroughly=True)
        return api.get("/metrics", key=None).text

    watching, now_ms = Watch(scrape), Backlog.now_ms
    monkeypatch.setattr(Backlog, "now_ms", lambda own: now_ms(own) + int(watching.ahead_seconds() * 1000))
    assert watching.minutes(2) == set()
    yield watching
    watching.agreed(tmp_path)
