"""PostgreSQL and Redis for tests: given by URL, or in Docker, or embedded, in this order."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from app.embedded import EmbeddedError, Postgres, Redis, ServerOptions, free_ports

DATABASE_URL = "EBBING_TEST_DATABASE_URL"
REDIS_URL = "EBBING_TEST_REDIS_URL"
POSTGRES_IMAGE = "pgvector/pgvector:0.8.5-pg18"
REDIS_IMAGE = "redis:8"
DOCKER_SOCKET = Path("/var/run/docker.sock")
MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108  # each run has a private folder there
MEMORY_BYTES = 500 * 1024 * 1024
PORTS_TRIED = 3
FOLDER_PREFIX = "ebbing-test-"


@dataclass
class Servers:
    """Servers that start on first use, so that tests of pure rules start nothing; `close` stops them."""

    _open: ExitStack = field(default_factory=ExitStack)

    @cached_property
    def kind(self) -> dict[str, str]:
        """Origin of each server: URL, Docker or embedded."""
        docker = _docker_answers()
        fallback = "Docker" if docker else "embedded"
        return {
            "PostgreSQL": "URL" if os.environ.get(DATABASE_URL) else fallback,
            "Redis": "URL" if os.environ.get(REDIS_URL) else fallback,
        }

    @cached_property
    def database_url(self) -> str:
        """URL of a superuser."""
        match self.kind["PostgreSQL"]:
            case "URL":
                return os.environ[DATABASE_URL]
            case "Docker":
                return self._postgres_in_docker()
            case _:
                return self._embedded(Postgres)

    @cached_property
    def redis_url(self) -> str:
        """URL of a logical database that may be flushed."""
        match self.kind["Redis"]:
            case "URL":
                return os.environ[REDIS_URL]
            case "Docker":
                return self._redis_in_docker()
            case _:
                return self._embedded(Redis)

    def _embedded(self, kind: type[Postgres | Redis]) -> str:
        """Start an embedded server, with another port if the first one was taken in between; return its URL."""
        tries = PORTS_TRIED
        while True:
            server = kind(self._home, free_ports(1)[0], ServerOptions(durable=False))
            try:
                process = server.start()
            except EmbeddedError:
                tries -= 1
                if not tries:
                    raise
            else:
                self._open.callback(server.stop, process)
                return server.admin_url if isinstance(server, Redis) else server.url

    def close(self) -> None:
        """Stop the servers started here and remove their files."""
        self._open.close()

    @cached_property
    def _home(self) -> Path:
        parent = _roomy_folder()
        _remove_leftovers(parent)
        home = Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-", dir=parent))
        home.chmod(0o711)  # if the tests run as root, the servers' user must be able to traverse the folder
        self._open.callback(shutil.rmtree, home, ignore_errors=True)
        return home

    def _postgres_in_docker(self) -> str:
        from testcontainers.community.postgres import PostgresContainer  # noqa: PLC0415  # needed only with Docker

        container = PostgresContainer(POSTGRES_IMAGE, username="postgres", dbname="postgres", driver=None)
        container.with_command("postgres -c fsync=off -c full_page_writes=off -c synchronous_commit=off")
        return str(self._open.enter_context(container).get_connection_url())

    def _redis_in_docker(self) -> str:
        from testcontainers.community.redis import RedisContainer  # noqa: PLC0415  # needed only with Docker

        container = self._open.enter_context(RedisContainer(REDIS_IMAGE))
        return f"redis://{container.get_container_host_ip()}:{container.get_exposed_port(6379)}/0"


@contextmanager
def new_database(server_url: str, template: str) -> Iterator[str]:
    """Yield the owner's URL of a copy of the template, which is dropped afterwards with its connections."""
    name = f"test_{token_hex(6)}"
    create = sql.SQL("create database {} template {} strategy wal_log")
    with psycopg.connect(server_url, autocommit=True) as server:
        server.execute(create.format(sql.Identifier(name), sql.Identifier(template)))
        try:
            yield on_database(server_url, name)
        finally:
            server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def on_database(url: str, name: str | int) -> str:
    """Return the URL with another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


def logical_database(redis_url: str, first: int = 0) -> str:
    """Return the URL of the logical database that is this worker's of pytest-xdist, counted from `first`."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return on_database(redis_url, int(urlsplit(redis_url).path.strip("/") or 0) + first + worker)


def _docker_answers() -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(2)
            connection.connect(os.fspath(DOCKER_SOCKET))
            connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b" 200 " in connection.recv(64)
    except OSError:
        return False


def _roomy_folder() -> Path:
    """Return a folder in memory if it has enough space, since creating databases there takes a tenth of the time."""
    if MEMORY_FOLDER.is_dir() and shutil.disk_usage(MEMORY_FOLDER).free > MEMORY_BYTES:
        return MEMORY_FOLDER
    return Path(tempfile.gettempdir())


def _remove_leftovers(parent: Path) -> None:
    """Remove the folders of killed test runs; their servers died with them."""
    for folder in parent.glob(f"{FOLDER_PREFIX}*"):
        owner = folder.name.removeprefix(FOLDER_PREFIX).split("-")[0]
        if not Path("/proc", owner).exists():
            shutil.rmtree(folder, ignore_errors=True)
