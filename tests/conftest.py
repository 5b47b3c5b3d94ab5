"""Fixtures shared by all tests: a separate database and Redis for each test that requests them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
import redis
from psycopg import sql

from tests.servers import Servers
from tests.waiting import until

if TYPE_CHECKING:
    from tests.service import Service

_SERVERS = pytest.StashKey[Servers]()
PARTS = ("alone", "together")
DAYS_END = timedelta(minutes=2)
MOST_WORKERS = 4


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rounds", type=int, default=3, help="rounds of killing in tests/faults")
    parser.addoption("--ui", action="store_true", help="the tests with a browser, in tests/ui")
    parser.addoption("--part", choices=PARTS, help="only the tests that run alone, or only those that needn't")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_SERVERS] = Servers()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Choose the workers of `-n auto`: each has its own servers, so none if servers are given by URL."""
    given = "URL" in Servers().kind.values()
    return 0 if given else min(len(os.sched_getaffinity(0)), MOST_WORKERS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the other part, and run slow tests first so that no worker is left with one at the end."""
    part = config.getoption("part")
    if part is not None:
        left_out = [item for item in items if (item.get_closest_marker("alone") is None) == (part == "alone")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if (item.get_closest_marker("alone") is None) != (part == "alone")]
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_report_header(config: pytest.Config) -> str:
    return ", ".join(f"{name}: {origin}" for name, origin in config.stash[_SERVERS].kind.items())


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_SERVERS].close()


@pytest.fixture(scope="session")
def servers(pytestconfig: pytest.Config) -> Servers:
    """PostgreSQL and Redis; each starts when its URL is first requested."""
    return pytestconfig.stash[_SERVERS]


@pytest.fixture(scope="session")
def template(servers: Servers) -> Iterator[str]:
    """Name of a migrated database without rows, which `database_url` copies."""
    from app.store.core.migrate import upgrade  # noqa: PLC0415  # slow to import; tests of pure rules don't need it

    name = f"template_{token_hex(6)}"
    with psycopg.connect(servers.database_url, autocommit=True) as server:
        server.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        upgrade(_on_database(servers.database_url, name))
        yield name
        server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def database_url(servers: Servers, template: str) -> Iterator[str]:
    """Owner's URL of a new, migrated database; on teardown it is dropped and its connections are closed."""
    name = f"test_{token_hex(6)}"
    create = sql.SQL("create database {} template {} strategy wal_log")
    with psycopg.connect(servers.database_url, autocommit=True) as server:
        server.execute(create.format(sql.Identifier(name), sql.Identifier(template)))
        yield _on_database(servers.database_url, name)
        server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def redis_url(servers: Servers) -> str:
    """URL of an empty Redis database; under pytest-xdist each worker has its own."""
    url = urlsplit(servers.redis_url)
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    own = urlunsplit(url._replace(path=f"/{int(url.path.strip('/') or 0) + worker}"))
    with redis.Redis.from_url(own) as client:
        client.flushdb()
    return own


@pytest.fixture
def whole_day() -> None:
    """Wait for the next UTC day if this one ends within minutes, so that a test doesn't span two days."""
    until(lambda: (datetime.now(UTC) + DAYS_END).date() == datetime.now(UTC).date(), "the next day")


@pytest.fixture(scope="session")
def standing_database(servers: Servers, template: str) -> Iterator[str]:
    """Owner's URL of the database that service tests share; they delete its rows before each test."""
    name = f"standing_{token_hex(6)}"
    create = sql.SQL("create database {} template {} strategy wal_log")
    with psycopg.connect(servers.database_url, autocommit=True) as server:
        server.execute(create.format(sql.Identifier(name), sql.Identifier(template)))
        yield _on_database(servers.database_url, name)
        server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def logged_redis(servers: Servers) -> Iterator[None]:
    """Enable Redis's append-only file, without which the service refuses to start."""
    with redis.Redis.from_url(servers.redis_url) as client:
        before = client.config_get("appendonly")["appendonly"]
        client.config_set("appendonly", "yes")
        yield
        client.config_set("appendonly", before)


@pytest.fixture
def service(
    standing_database: str, redis_url: str, logged_redis: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Service]:
    """The service's internals with empty stores and no pending requests; see `tests/service.py`."""
    from tests.service import inside  # noqa: PLC0415  # slow to import; tests of pure rules don't need it

    with inside(standing_database, redis_url, monkeypatch) as opened:
        yield opened


def _on_database(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
