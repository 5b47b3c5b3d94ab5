"""Run PostgreSQL and Redis for a single process, without workers or API and without settings of another service."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from app import logs
from app.clients.redis import stream
from app.embedded import Postgres, Redis, ServerOptions, ensure_password, free_ports
from app.services import migrations
from app.settings import settings
from app.store.core import database
from app.store.core.provision import create_database
from app.supervisor.service_children import DATABASE, OWNER_URL, ROLE

_PREFIX: Final = "EBBING_"
_REDIS_BYTES: Final = 256 << 20


@contextmanager
def standalone_servers(home: Path) -> Iterator[None]:
    """Start servers with an empty database in a home whose lock the caller holds, and configure this process for them.

    All other settings have their defaults. Nothing is flushed to disk, so a crash may lose all data.

    Raises:
        EmbeddedError: A server can't be run here.
    """
    options = ServerOptions(durable=False)
    with ExitStack() as held:
        postgres_port, redis_port = free_ports(2)
        postgres = Postgres(home, postgres_port, options)
        held.callback(postgres.stop, postgres.start())
        redis = Redis(home, redis_port, options, maxmemory_bytes=_REDIS_BYTES)
        held.callback(redis.stop, redis.start())
        password = ensure_password(home / "service-password")
        create_database(postgres.url, DATABASE, ROLE, password)
        given = {
            OWNER_URL: postgres.database_url(DATABASE),
            "EBBING_HOME": str(home),
            "EBBING_DATABASE_URL": postgres.database_url(DATABASE, ROLE, password),
            "EBBING_REDIS_URL": redis.url,
            "EBBING_MASTER_KEY": ensure_password(home / "master-key"),
            "EBBING_LOG_LEVEL": "error",
        }
        held.enter_context(_environment(given))
        held.callback(database.close)
        held.callback(stream.close)
        logs.configure("simulate")
        migrations.upgrade_schema("head")
        yield


@contextmanager
def _environment(given: Mapping[str, str]) -> Iterator[None]:
    """Replace all service settings in the environment within the block."""
    before = {name: value for name, value in os.environ.items() if name.startswith(_PREFIX)}
    _set(before.keys(), given)
    try:
        yield
    finally:
        _set(given.keys(), before)


def _set(names: Iterable[str], given: Mapping[str, str]) -> None:
    for name in list(names):
        del os.environ[name]
    os.environ.update(given)
    settings.cache_clear()
