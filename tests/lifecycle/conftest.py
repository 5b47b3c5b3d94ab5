"""Fixtures: separate cold storage for each test, so that memories are moved by the service's own code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.clients.object_store import cold_store
from tests.service import Service


@pytest.fixture(autouse=True)
def _cold(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    if "service" in request.fixturenames:
        service: Service = request.getfixturevalue("service")
        service.configure(cold_url=tmp_path.as_uri(), master_key="a master key of tests, as long as it must be")
    cold_store.cache_clear()
    yield
    cold_store.cache_clear()
