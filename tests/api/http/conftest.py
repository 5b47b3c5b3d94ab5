"""Fixture: the API as a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.api.http.server_process import Server, Start, serve
from tests.servers import Servers, logical_database, new_database

# Other tests use the first ones.
FIRST_LOGICAL_DATABASE = 12


@pytest.fixture(scope="session")
def start(
    servers: Servers, template: str, logged_redis: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Start]:
    """Factory for APIs with a body limit of 1 MiB, the given timeout in seconds for headers and body, and settings.

    All of them share a database: Redis accepts no other one.
    """
    redis_url = logical_database(servers.redis_url, FIRST_LOGICAL_DATABASE)
    with new_database(servers.database_url, template) as database_url:

        @contextmanager
        def started(seconds: float, **settings: object) -> Iterator[Server]:
            folder = tmp_path_factory.mktemp("server")
            with serve(redis_url, database_url, folder, seconds, **settings) as running:
                yield running

        yield started
