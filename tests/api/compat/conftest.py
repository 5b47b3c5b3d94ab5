"""Fixtures: memory-decay's API in this process, with a worker in a thread."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.services.tenants import tenants
from tests.api.caller import Api
from tests.api.memories.test_ingest import worker
from tests.service import Service, Tenant

TENANT = "plugin"


@pytest.fixture
def theirs(service: Service) -> Iterator[Api]:
    """The application with memory-decay's API for the tenant whose key is sent."""
    service.configure(compat_memory_decay=TENANT)
    made, key = tenants.create(TENANT)
    with Api(service) as started, worker(service):
        started.tenant = Tenant(made.tenant_id, key)
        yield started
