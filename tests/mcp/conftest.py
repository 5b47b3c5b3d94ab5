"""Fixtures: the API in this process, which doesn't wait until accepted memories can be found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from app.clients.object_store import cold_store
from tests.api.caller import Api, standing_routes
from tests.api.memories.test_ingest import worker
from tests.service import Service
from tests.waiting import PATIENCE_SECONDS

Offer = Callable[[str], Api]


@pytest.fixture
def api(service: Service, tmp_path: Path) -> Iterator[Api]:
    service.configure(wait_max_seconds=0, cold_url=(tmp_path / "cold").as_uri())
    cold_store.cache_clear()
    with Api(service, standing_routes()) as started:
        yield started
    cold_store.cache_clear()


@pytest.fixture
def offer(api: Api, service: Service) -> Iterator[Offer]:
    """Return a function that starts the API with a set of tools, and a worker that stores memories."""
    with ExitStack() as opened:

        def start(tool_set: str) -> Api:
            service.configure(mcp_tools=tool_set, wait_max_seconds=PATIENCE_SECONDS)
            opened.enter_context(worker(service))
            started = opened.enter_context(Api(service, api._routes))
            started.__dict__["tenant"] = api.tenant
            return started

        yield start
