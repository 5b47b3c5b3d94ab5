"""The service's processes, each by itself: `api`, `worker`, `beat`, `migrate`."""

from __future__ import annotations

import os
import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, cast

import typer

from app.cli.core.failures import Code, Failure
from app.cli.core.output import AsJson, examples, print_json
from app.cli.core.place import check_dynamics, configuration

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.settings import Settings

BACKLOG: Final = 1024
# Idle connections hold a place too, so this many clients may keep one.
CONNECTIONS: Final = 1024
STOP_SECONDS: Final = 8
INGEST_PROCESSES: Final = 2
SCORE_PROCESSES_WITH_MODEL: Final = 2  # one may wait for a model, the other has the rules

router = typer.Typer()


@router.command(epilog=examples("ebbing api", "EBBING_HOST=0.0.0.0 EBBING_PORT=9000 ebbing api"))
def api() -> None:
    """Serve the HTTP API (needs EBBING_DATABASE_URL and EBBING_REDIS_URL)."""
    from granian import Granian
    from granian.constants import HTTPModes, Interfaces, Loops
    from granian.http import HTTP1Settings
    from granian.log import LogLevels

    from app import logs

    config = configuration()
    _need(config, "database_url", "redis_url")
    check_dynamics()  # else granian starts it over and over
    logs.configure("api")
    server = Granian(
        "app.main:build",
        address=_address(config.host),
        port=_port(config),
        interface=Interfaces.ASGI,
        workers=1,
        loop=Loops.uvloop,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=int(config.request_headers_timeout_seconds * 1000)),
        websockets=False,
        backlog=BACKLOG,
        backpressure=CONNECTIONS,
        respawn_failed_workers=True,
        workers_kill_timeout=STOP_SECONDS,
        log_access=False,
        log_level=LogLevels.warning,
        log_dictconfig=_LOGS,
    )
    _announce_the_end(server)
    server.serve(target_loader=partial(_load, os.getpid()), wrap_loader=False)


# granian's own lines go where all others go, in their shape.
_LOGS: Final[dict[str, Any]] = {
    "loggers": {"_granian": {"handlers": [], "propagate": True}, "granian.access": {"handlers": []}},
}


def _announce_the_end(server: Any) -> None:
    """Have streams of events end before granian waits for them: it would until it kills them."""
    from app import stopping

    interrupt = server.signal_handler_interrupt

    def interrupted(*arguments: object) -> None:
        stopping.tell_children()
        interrupt(*arguments)

    server.signal_handler_interrupt = interrupted


def _load(server_process: int) -> Callable[..., Any]:
    """The application, in granian's worker, which by itself would outlive a killed server."""
    from app import stopping
    from app.deathwatch import die_with_parent

    die_with_parent(server_process)
    stopping.listen()
    # By name: the application is above the command line, which only starts it.
    return cast("Callable[..., Any]", import_module("app.main").build())


@router.command(epilog=examples("ebbing worker --lane ingest", "ebbing worker --lane embed --concurrency 2"))
def worker(
    lane: Annotated[str, typer.Option("--lane", help="Which work it does: ingest, embed, score, rights or maintain.")],
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency", min=1, help="Processes; 2 for ingest, 2 for score where a model is asked, else 1."
        ),
    ] = None,
) -> None:
    """Work on one lane's queues."""
    from app.queues import LANES

    if lane not in LANES:
        raise Failure(f"there is no lane {lane}: the lanes are {', '.join(LANES)}", Code.USAGE)
    config = configuration()
    _need(config, "database_url", "redis_url")
    # Celery hands unfinished tasks back on SIGQUIT; its own answer to SIGTERM waits for them.
    os.environ["REMAP_SIGTERM"] = "SIGQUIT"
    _become_celery(
        "worker",
        *("--queues", ",".join(LANES[lane])),
        *("--pool", "prefork"),
        *("--concurrency", str(concurrency or _processes(lane, config))),
        *("--hostname", f"{lane}@%h"),
        "--without-gossip",
        "--without-mingle",
    )


def _processes(lane: str, config: Settings) -> int:
    """How many a lane needs so that one that takes its time doesn't hold up the rest."""
    if lane == "ingest":
        return INGEST_PROCESSES
    return SCORE_PROCESSES_WITH_MODEL if lane == "score" and config.has_provider else 1


@router.command(epilog=examples("ebbing beat"))
def beat() -> None:
    """Send the nudges of every few seconds; any number of these may run."""
    _need(configuration(), "redis_url")
    # The schedule's times lie in PostgreSQL and its nudges are seconds apart: nothing here is worth a file.
    _become_celery("beat", "--scheduler", "celery.beat:Scheduler")


@router.command(epilog=examples("ebbing migrate", "EBBING_OWNER_DATABASE_URL=postgresql://… ebbing migrate"))
def migrate(
    revision: Annotated[str, typer.Option("--revision", help="Up to this one.")] = "head",
    first_key: Annotated[bool, typer.Option("--first-key", hidden=True)] = False,
    as_json: AsJson = False,
) -> None:
    """Bring the database to this version's schema, with EBBING_OWNER_DATABASE_URL where that is set.

    Where the data is an older copy, what was erased since is erased again, as by `ebbing privacy replay`. Policies
    that hold an earlier version's defaults get this version's, in a new version of their own; values that a tenant
    set stay.
    """
    from app.cli.service.bootstrap import keep_key
    from app.services import schema

    before, after = schema.upgrade(revision)
    if revision == "head":
        _replay()
        _follow_defaults()
    if first_key:  # `ebbing run` asks for it, in this process because another would take half a second to start
        keep_key(configuration().home / "api-key")
    if as_json:
        print_json({"from": before, "to": after})
    elif revision == "head" and before == after and before != schema.newest():
        typer.echo(f"schema: {before}, of a version after this one, which works on it")
    else:
        typer.echo(f"schema: {before or 'empty'} → {after or 'empty'}")


def _replay() -> None:
    """Replay erasures where the service's own settings are here; else its readiness says what to do."""
    config = configuration()
    if config.database_url is None or config.redis_url is None:
        return
    from app.services.erasure import ledger

    standing = ledger.standing()
    if standing is None or not standing.is_behind:
        return
    from app.services.erasure import replays

    replayed = sum(1 for _ in replays.replay())
    typer.echo(f"erasures, requests and holds replayed: {replayed}", err=True)


def _follow_defaults() -> None:
    """Let stored policies follow this version's defaults where the service's own settings are here."""
    config = configuration()
    if config.database_url is None or config.redis_url is None:
        return
    from app.services.tenants import policy_defaults

    followed = policy_defaults.follow_all()
    if followed:
        typer.echo(f"policies: {followed:,} tenants follow this version's defaults in a new version", err=True)


def _become_celery(*arguments: str) -> NoReturn:
    # -P: never from the current folder, where somebody's own `app` or `workers` may lie.
    command = [sys.executable, "-P", "-m", "workers", "--quiet", *arguments]
    os.execv(sys.executable, [*command, "--loglevel", "WARNING"])  # noqa: S606 - a list of arguments, no shell


def _need(config: Settings, *names: str) -> None:
    for name in names:
        if getattr(config, name) is None:
            raise Failure(f"EBBING_{name.upper()} isn't set: give it, or use `ebbing run`, which brings its own server")


def _address(host: str) -> str:
    """The address of a host's name, which granian doesn't look up."""
    import socket

    try:
        found = socket.getaddrinfo(host or None, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise Failure(f"EBBING_HOST {host} can't be looked up ({error})", Code.USAGE) from None
    return str(found[0][4][0])


def _port(config: Settings) -> int:
    if config.port:
        return config.port
    from app.embedded import free_ports

    [port] = free_ports(1)
    typer.echo(f"listening on port {port}")
    return port
