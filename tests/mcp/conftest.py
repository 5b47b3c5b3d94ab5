"""Fixtures: the API in this process, which doesn't wait until accepted memories can be found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.clients.object_store import cold_store
from tests.api.caller import Api, standing_routes
from tests.service import Service


@pytest.fixture
def api(service: Service, tmp_path: Path) -> Iterator[Api]:
    service.configure(wait_max_seconds=0, cold_url=(tmp_path / "cold").as_uri())
    cold_store.cache_clear()
    with Api(service, standing_routes()) as started:
        yield started
    cold_store.cache_clear()
