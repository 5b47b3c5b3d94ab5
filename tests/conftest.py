"""Fixtures shared by all tests: a separate database and Redis for each test that requests them."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

import psycopg
import pytest
import redis
from psycopg import sql

from tests import costs, examples, groups
from tests.environment_guard import EnvironmentGuard
from tests.servers import Servers, logical_database, new_database, on_database
from tests.waiting import until

if TYPE_CHECKING:
    from tests.service import Service

_SERVERS = pytest.StashKey[Servers]()
DAYS_END = timedelta(minutes=2)
MOST_WORKERS = 4
LONG_FIXTURES = frozenset({"drill"})  # dumps and restores databases


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rounds", type=int, default=3, help="rounds of killing in tests/faults")
    parser.addoption("--ui", action="store_true", help="the tests with a browser, in tests/ui")
    parser.addoption("--costs", type=Path, help="folder for the processor time of each test (make test-costs)")


def pytest_configure(config: pytest.Config) -> None:
    examples.set_default()  # `given` reads the default when a test module is imported
    config.stash[_SERVERS] = Servers()
    config.pluginmanager.register(costs.NoProcesses())
    config.pluginmanager.register(EnvironmentGuard())
    if (folder := config.getoption("costs")) is not None:
        config.pluginmanager.register(costs.ProcessorTimes(folder))
    gc.disable()


def pytest_collection_finish() -> None:
    """Exclude all modules and collected tests, which live as long as the process, from garbage collection.

    Otherwise each full collection visits a million of their objects: a quarter of the processor time of collecting
    tests, and half a second now and then during the tests.
    """
    gc.freeze()
    gc.enable()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Choose the workers of `-n auto`: each has its own servers, so none if servers are given by URL.

    One more than there are cores, because tests that kill processes mostly wait.
    """
    given = "URL" in Servers().kind.values()
    return 0 if given else min(len(os.sched_getaffinity(0)) + 1, MOST_WORKERS)


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort tests by cost, and mark them; every `long` test is `slow` too.

    Mark what was measured as slow or long, and property tests `drawn`.
    """
    costs.mark_measured(items, long=config.getoption("costs") is None)
    for item in items:
        fixtures = item.fixturenames if isinstance(item, pytest.Function) else ()
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("drawn")
        if not LONG_FIXTURES.isdisjoint(fixtures):
            item.add_marker("long")
        if item.get_closest_marker("long") is not None:
            item.add_marker("slow")
    costs.sort(items)
    if config.getoption("loadgroup", default=False):  # set by pytest-xdist in its workers
        groups.name_groups(items)


def pytest_report_header(config: pytest.Config) -> str:
    return ", ".join(f"{name}: {origin}" for name, origin in config.stash[_SERVERS].kind.items())


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_SERVERS].close()


@pytest.fixture(scope="session", autouse=True)
def _one_command_line() -> None:
    """Let typer's runner build the command line once, which takes longer than most commands."""
    if (testing := sys.modules.get("typer.testing")) is not None:
        testing._get_command = cache(testing._get_command)  # type: ignore[attr-defined]


@pytest.fixture(scope="session", autouse=True)
def _remembered_environments() -> None:
    """Parse the settings of each environment once: most tests read them afresh, in an environment of earlier tests."""
    if "app.settings" in sys.modules:
        from tests import environments  # noqa: PLC0415  # imports the settings, which tests of pure rules don't need

        environments.remember()


@pytest.fixture(scope="session", autouse=True)
def _remembered_redis_version() -> None:
    """Let the client of Redis read its own version once: it parses its package's metadata for each connection."""
    if (utils := sys.modules.get("redis.utils")) is not None:
        utils.get_lib_version = cache(utils.get_lib_version)  # type: ignore[attr-defined]


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
        upgrade(on_database(servers.database_url, name))
        yield name
        server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def database_url(servers: Servers, template: str) -> Iterator[str]:
    """Owner's URL of a new, migrated database; on teardown it is dropped and its connections are closed."""
    with new_database(servers.database_url, template) as url:
        yield url


@pytest.fixture(scope="session")
def standing_redis(servers: Servers) -> Iterator[tuple[str, redis.Redis]]:
    """URL and client of the Redis database that tests share; under pytest-xdist each worker has its own."""
    own = logical_database(servers.redis_url)
    with redis.Redis.from_url(own) as client:
        yield own, client


@pytest.fixture
def redis_url(standing_redis: tuple[str, redis.Redis]) -> str:
    """URL of an empty Redis database."""
    url, client = standing_redis
    client.flushdb()
    return url


@pytest.fixture
def whole_day() -> None:
    """Wait for the next UTC day if this one ends within minutes, so that a test doesn't span two days."""
    until(lambda: (datetime.now(UTC) + DAYS_END).date() == datetime.now(UTC).date(), "the next day")


@pytest.fixture(scope="session")
def standing_database(servers: Servers, template: str) -> Iterator[str]:
    """Owner's URL of the database that service tests share; they delete its rows before each test."""
    from tests import connections  # noqa: PLC0415  # slow to import; tests of pure rules don't need it

    with new_database(servers.database_url, template) as url:
        yield url
        connections.close()


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
