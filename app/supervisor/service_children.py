"""Define the children of `ebbing run`: servers without a configured URL, migrations, workers, beat and the API."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.embedded import EmbeddedError, Postgres, ProgramSpec, Redis, ServerOptions, ensure_password, free_ports
from app.errors import Misconfigured
from app.secret_files import SUFFIX
from app.supervisor.child import Child
from app.supervisor.forks import EBBING, PARENT, PreloadedParent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from app.embedded import ChildProcess, Server
    from app.settings import Settings

DATABASE: Final = "ebbing"
ROLE: Final = "ebbing_service"
OWNER_URL: Final = "EBBING_OWNER_DATABASE_URL"
GIVEN_BY_VALUE: Final = ("EBBING_DATABASE_URL", "EBBING_REDIS_URL", "EBBING_MASTER_KEY")
"""Secrets that all children get from the supervisor, which chooses them if they aren't configured."""
READY_TIMEOUT_SECONDS = 0.5
# Settings of the C library's allocator, unless the environment has its own: a batch's arrays are returned to the system
# once they are freed. By default, each thread would get a heap of its own, and the limits would grow with the arrays.
ALLOCATOR: Final = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(256 << 10),
    "MALLOC_TRIM_THRESHOLD_": str(512 << 10),
}
WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104  # for lookups, not bound


@dataclass(frozen=True)
class Service:
    """The processes to run and their URLs."""

    children: tuple[Child, ...]
    api_url: str
    database_url: str
    owner_database_url: str
    redis_url: str


def service_children(
    settings: Settings,
    home: Path,
    lanes: Sequence[str],
    options: ServerOptions | None = None,
) -> Service:
    """Define the children of a service in `home`, whose lock the caller holds, without starting them.

    PostgreSQL and Redis are omitted if `settings` has their URLs. On Linux, the service's own processes are forks of a
    preloaded parent, which loads while the servers start. The API starts last, so everything is available once
    it answers, and stops first. Ports are chosen here for the service's lifetime: a restarted child reuses its own.

    Raises:
        EmbeddedError: A server can't be run here, or the API's port is taken.
    """
    options = options or ServerOptions()
    home = home.resolve()
    postgres_port, redis_port, free_api_port = free_ports(3)
    api_port = settings.port or free_api_port
    _check_port(settings.host, api_port)
    children: list[Child] = []
    prepare_migration: Callable[[], None] | None = None

    if settings.database_url is None:
        postgres = Postgres(home, postgres_port, options)
        role_password = ensure_password(home / "service-password")
        owner_url = postgres.database_url(DATABASE)
        database_url = postgres.database_url(DATABASE, ROLE, role_password)
        prepare_migration = partial(_create_database, postgres.url, role_password)
        children.append(_server(postgres))
    else:
        database_url = settings.database_url.get_secret_value()
        owner = settings.owner_database_url
        owner_url = owner.get_secret_value() if owner else database_url

    if settings.redis_url is None:
        redis = Redis(
            home,
            redis_port,
            options,
            appendfsync=settings.redis_appendfsync,
            maxmemory_bytes=settings.redis_maxmemory_bytes,
        )
        redis_url = redis.url
        children.append(_server(redis))
    else:
        redis_url = settings.redis_url.get_secret_value()

    environment = {**ALLOCATOR, **_inherited_environment()} | {
        "EBBING_HOME": str(home),
        "EBBING_INSTALLATION": "run",
        "EBBING_DATABASE_URL": database_url,
        "EBBING_REDIS_URL": redis_url,
        "EBBING_HOST": settings.host,
        "EBBING_PORT": str(api_port),
        "EBBING_MASTER_KEY": (
            settings.master_key.get_secret_value() if settings.master_key else ensure_password(home / "master-key")
        ),
    }
    api_url = _api_url(settings.host, api_port)

    parent = PreloadedParent() if sys.platform == "linux" else None
    if parent is not None:
        children.insert(0, _preloader(parent, environment, home))

    def ebbing(name: str, *arguments: str, **more: str) -> Child:
        program = ProgramSpec([*EBBING, *arguments], environment | more, folder=Path.cwd())
        child = Child(name, program, home / "logs" / f"{name}.log")
        return child if parent is None else replace(child, start=parent.fork, can_start=parent.is_decided)

    migrate = ebbing("migrate", "migrate", **{OWNER_URL: owner_url})
    children.append(replace(migrate, prepare=prepare_migration, one_shot=True, step="Migrating the database"))
    for lane in lanes:
        # On SIGQUIT Celery requeues its unfinished tasks; on SIGTERM it would wait for them.
        worker = ebbing(f"worker-{lane}", "worker", "--lane", lane, REMAP_SIGTERM="SIGQUIT")
        children.append(replace(worker, stage="workers", stop_timeout_seconds=settings.shutdown_seconds + 5))
    children.append(ebbing("beat", "beat"))
    children.append(
        replace(
            ebbing("api", "api"),
            death_signal=signal.SIGTERM,
            ready=partial(_is_answering, f"{api_url}/readyz"),
            explain=partial(_explain_unready, f"{api_url}/readyz"),
            step="Starting the API",
        )
    )
    return Service(tuple(children), api_url, database_url, owner_url, redis_url)


def _inherited_environment() -> dict[str, str]:
    """Return the environment without the database owner's URL and the `…_FILE` variables of secrets passed by value."""
    left_out = {OWNER_URL, *(name + SUFFIX for name in (OWNER_URL, *GIVEN_BY_VALUE))}
    return {name: value for name, value in os.environ.items() if name.upper() not in left_out}


def _create_database(superuser_url: str, role_password: str) -> None:
    """Create the database in a process of its own, because the driver would stay in this one's memory.

    Raises:
        EmbeddedError: That failed; the process has printed the reason.
    """
    process = get_context("fork").Process(target=_provision, args=(superuser_url, role_password))
    process.start()
    process.join()
    if process.exitcode:
        raise EmbeddedError(f"database {DATABASE} can't be set up: see the error above")


def _provision(superuser_url: str, role_password: str) -> None:
    from app.store.core.provision import create_database  # noqa: PLC0415 - imports the driver

    try:
        create_database(superuser_url, DATABASE, ROLE, role_password)
    except Misconfigured as error:
        raise SystemExit(str(error)) from None


def _preloader(parent: PreloadedParent, environment: Mapping[str, str], home: Path) -> Child:
    """Return the preloaded parent. It needs REMAP_SIGTERM, which Celery reads when the parent imports it."""
    program = ProgramSpec(PARENT, {**environment, "REMAP_SIGTERM": "SIGQUIT"}, folder=Path.cwd())
    return Child(
        "preloader",
        program,
        home / "logs" / "preloader.log",
        start=parent.start,
        finish=parent.close,
        ready=parent.is_ready,
        ready_timeout_seconds=60,
        optional=True,
    )


def _server(server: Server) -> Child:
    return Child(
        server.name,
        server.program(),
        server.log,
        death_signal=server.stop_signal,
        stop_signal=server.stop_signal,
        stop_timeout_seconds=server.stop_timeout_seconds,
        ready=server.ready,
        ready_timeout_seconds=server.ready_timeout_seconds,
        prepare=server.prepare,
        essential=True,
        step="Starting PostgreSQL" if isinstance(server, Postgres) else "Starting Redis",
    )


def _is_answering(url: str, _process: ChildProcess) -> bool:
    """Return True if a GET returns 200. Only our process can answer, because the port was free before."""
    try:
        with _open(url) as answer:
            return bool(answer.status == http.HTTPStatus.OK)
    except (OSError, http.client.HTTPException):
        return False


def _explain_unready(url: str) -> str:
    """Return what `/readyz` says about the dependencies that aren't ready; empty if it says nothing."""
    try:
        _open(url).close()
    except urllib.error.HTTPError as refusal:
        with suppress(OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            found = json.loads(refusal.read())["dependencies"]
            return " ".join(str(one["detail"]) for one in found if not one["well"])
    except (OSError, http.client.HTTPException):
        pass
    return ""


def _open(url: str) -> http.client.HTTPResponse:
    """Send a GET directly to the loopback interface, ignoring proxy settings."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    answer: http.client.HTTPResponse = opener.open(url, timeout=READY_TIMEOUT_SECONDS)
    return answer


def _api_url(host: str, port: int) -> str:
    host = WILDCARDS.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _check_port(host: str, port: int) -> None:
    """Fail early with a clear message instead of after five deaths of the API."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise EmbeddedError(
            f"the API can't listen on {host}:{port} ({error}): set EBBING_PORT to another, or to 0"
        ) from error


def running_database(home: Path) -> str | None:
    """Return the database URL of a service running in this home, with the service's own login, or None.

    Raises:
        OSError: The home isn't readable.
    """
    try:
        lines = (home / "postgres" / "data" / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        password = (home / "service-password").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    port = lines[3] if len(lines) > 7 and lines[7].strip() == "ready" else None
    return None if port is None else f"postgresql://{ROLE}:{password}@127.0.0.1:{port}/{DATABASE}"
