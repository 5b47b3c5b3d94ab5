"""Fixtures: the API in this process, called without a socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.clients.object_store import cold_store
from tests.api.caller import Api, standing_routes
from tests.service import Service

MASTER_KEY = "a master key of tests, as long as it must be"


@pytest.fixture
def api(service: Service, tmp_path: Path) -> Iterator[Api]:
    """The application with a new tenant and an empty folder for cold storage and exports."""
    service.configure(cold_url=(tmp_path / "cold").as_uri(), master_key=MASTER_KEY)
    cold_store.cache_clear()
    with Api(service, standing_routes()) as started:
        yield started
    cold_store.cache_clear()
