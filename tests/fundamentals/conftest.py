"""Fixtures: one running service for the whole tutorial, and a tenant for each test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import redis
from celery import Celery

from app import queues
from app.domain.policy.api_keys import SCOPES
from app.embedded import ensure_password, free_ports
from tests import redis_login
from tests.fundamentals.client import Client
from tests.fundamentals.service import BACKLOG_ENTRIES, Service, Tenant
from tests.installation import make_tenant
from tests.processes import Processes
from tests.servers import Servers, logical_database, new_database
from tests.waiting import PATIENCE_SECONDS

# Other tests flush the first logical databases of the same Redis.
FIRST_LOGICAL_DATABASE = 8


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark every test, and put all on one worker of pytest-xdist, so that the service starts once."""
    item.add_marker(pytest.mark.xdist_group("fundamentals"))
    item.add_marker(pytest.mark.slow)


def check_redis_login(admin: redis.Redis) -> None:
    """Check that the service ran no command, and named no key, that its restricted login forbids."""
    assert redis_login.list_refusals(admin) == []


@pytest.fixture(scope="session")
def service(servers: Servers, template: str, logged_redis: None) -> Iterator[Service]:
    """The API, a worker for each lane, and beat, started as in production."""
    with ExitStack() as undo:
        folder = Path(tempfile.mkdtemp(prefix="ebbing-fundamentals-"))
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        database_url = undo.enter_context(new_database(servers.database_url, template))
        redis_url = logical_database(servers.redis_url, FIRST_LOGICAL_DATABASE)
        client = undo.enter_context(closing(redis.Redis.from_url(redis_url, protocol=2)))
        client.flushdb()
        undo.callback(client.flushdb)
        service_redis_url = redis_login.restricted(client, redis_url)
        undo.callback(check_redis_login, client)
        [port] = free_ports(1)
        processes = Processes(
            folder,
            {
                "EBBING_HOME": str(folder),
                "EBBING_DATABASE_URL": database_url,
                "EBBING_REDIS_URL": service_redis_url,
                "EBBING_PORT": str(port),
                "EBBING_MASTER_KEY": ensure_password(folder / "master-key"),
                "EBBING_TENANT_BACKLOG_ENTRIES": str(BACKLOG_ENTRIES),
                "EBBING_KEY_CACHE_SECONDS": "1",
                "EBBING_WAIT_MAX_SECONDS": str(PATIENCE_SECONDS),
            },
        )
        undo.callback(processes.close)
        processes.start("api", "api")
        for lane in queues.LANES:
            processes.start(f"worker-{lane}", "worker", "--lane", lane, "--concurrency", "1")
        processes.start("beat", "beat")
        # Like the key that `ebbing run` stores in its home: it has every scope.
        _, key = make_tenant(database_url, "operator", SCOPES)
        url = f"http://127.0.0.1:{port}"
        sender = undo.enter_context(Celery(broker=redis_url, set_as_current=False))
        sender.conf.broker_transport_options = queues.broker_options()
        processes.wait_until_answers("api", f"{url}/readyz")
        operator = Client(url, key)
        undo.callback(operator.http.close)
        yield Service(url, operator, database_url, client, sender, processes)


@pytest.fixture
def tenant(service: Service) -> Iterator[Tenant]:
    """A new tenant with its first key."""
    yield service.new_tenant()
    while service.clients:
        service.clients.pop().http.close()


@pytest.fixture
def ebbing(service: Service, tenant: Tenant) -> Client:
    """The new tenant's client."""
    return service.client(tenant.api_key)
