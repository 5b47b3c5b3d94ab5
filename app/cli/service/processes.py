"""Start the service's processes individually: `api`, `worker`, `beat`, `migrate`."""

from __future__ import annotations

import os
import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from app.cli.core.connection import check_dynamics, load_settings
from app.cli.core.errors import Code, CommandFailure, Commands, expected_failures
from app.cli.core.output import AsJson, examples, print_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.settings import Settings

BACKLOG: Final = 1024
OTHER_FILES: Final = 256
"""Number of files that the API opens in addition to its connections: PostgreSQL, Redis, logs and libraries."""
STOP_SECONDS: Final = 8
INGEST_PROCESSES: Final = 2
SCORE_PROCESSES: Final = 2  # one may wait for receivers of webhooks while the other applies the rules
SCORE_PROCESSES_WITH_MODEL: Final = 3  # a third may wait for a model

router = typer.Typer()


def main() -> None:
    """Run one of these commands in a fork.

    Typer would copy 5 MB of the shared memory, so it isn't used for the arguments that `ebbing run` passes.
    """
    run = _find_command(sys.argv[1:])
    if run is not None:
        try:
            with expected_failures():
                run()
        except typer.Exit as end:
            sys.exit(end.exit_code)
        return
    commands = typer.Typer(cls=Commands, add_completion=False, pretty_exceptions_enable=False)
    commands.add_typer(router)
    commands(prog_name="ebbing")


def _find_command(arguments: Sequence[str]) -> Callable[[], object] | None:
    """Return the function of a command with these arguments; None if Typer has to parse them."""
    match arguments:
        case ["api"]:
            return api
        case ["beat"]:
            return beat
        case ["worker", "--lane", lane]:
            return partial(worker, lane)
        case _:
            return None


@router.command(epilog=examples("ebbing api", "EBBING_HOST=0.0.0.0 EBBING_PORT=9000 ebbing api"))
def api() -> None:
    """Serve the HTTP API (needs EBBING_DATABASE_URL and EBBING_REDIS_URL)."""
    from granian import Granian
    from granian.constants import HTTPModes, Interfaces, Loops
    from granian.http import HTTP1Settings
    from granian.log import LogLevels

    from app import logs

    config = load_settings()
    _require_settings(config, "database_url", "redis_url")
    check_dynamics()  # fail here: granian would restart the worker endlessly
    logs.configure("api")
    port = _port(config)
    server = Granian(
        "app.main:build",
        address=_address(config.host),
        port=port,
        interface=Interfaces.ASGI,
        workers=1,
        loop=Loops.uvloop,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=int(config.request_headers_timeout_seconds * 1000)),
        websockets=False,
        backlog=BACKLOG,
        backpressure=limit_connections(config.connections_max),
        respawn_failed_workers=True,
        workers_kill_timeout=STOP_SECONDS,
        log_access=False,
        log_level=LogLevels.warning,
        log_dictconfig=_LOGS,
    )
    _announce_the_end(server)
    server.serve(target_loader=partial(_load, os.getpid(), port), wrap_loader=False)


def limit_connections(wanted: int) -> int:
    """Return the maximum number of open connections, after raising the limit of open files as far as allowed."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = wanted + OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        files = min(files, hard)
    if soft != resource.RLIM_INFINITY and soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    return max(min(wanted, files - OTHER_FILES), 1)


# Route granian's log records through the root logger, in the service's format.
_LOGS: Final[dict[str, Any]] = {
    "loggers": {"_granian": {"handlers": [], "propagate": True}, "granian.access": {"handlers": []}},
}


def _announce_the_end(server: Any) -> None:
    """End event streams before granian shuts down; it would wait for them, and kill its worker after `STOP_SECONDS`."""
    from app import shutdown

    interrupt = server.signal_handler_interrupt

    def interrupted(*arguments: object) -> None:
        shutdown.tell_children()
        interrupt(*arguments)

    server.signal_handler_interrupt = interrupted


def _load(server_process: int, port: int) -> Callable[..., Any]:
    """Build the application in granian's worker, and make the worker exit if the server process dies."""
    from app import shutdown
    from app.system.parent_death import die_with_parent

    die_with_parent(server_process)
    shutdown.install_handler()
    # Imported by name: in the layer order, the application is above the command line.
    return cast("Callable[..., Any]", import_module("app.main").build(port))


@router.command(epilog=examples("ebbing worker --lane ingest", "ebbing worker --lane embed --concurrency 2"))
def worker(
    lane: Annotated[str, typer.Option("--lane", help="Lane to process: ingest, embed, score, rights or maintain.")],
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency",
            min=1,
            help="Number of processes. Default: 2 for ingest; 2 for score, or 3 if a model provider is configured; 1 "
            "for the other lanes.",
        ),
    ] = None,
) -> None:
    """Process the queues of one lane."""
    # On SIGQUIT Celery requeues unfinished tasks; on SIGTERM it would wait for them. Celery reads this when imported.
    os.environ["REMAP_SIGTERM"] = "SIGQUIT"
    from app.lanes import LANES

    if lane not in LANES:
        raise CommandFailure(f"unknown lane {lane}: use one of {', '.join(LANES)}", Code.USAGE)
    config = load_settings()
    _require_settings(config, "database_url", "redis_url")
    _celery().run_worker(lane, LANES[lane], concurrency or _processes(lane, config))


def _processes(lane: str, config: Settings) -> int:
    """Return the default number of processes, so that one slow task doesn't block a lane."""
    if lane == "ingest":
        return INGEST_PROCESSES
    if lane == "score":
        return SCORE_PROCESSES_WITH_MODEL if config.has_provider else SCORE_PROCESSES
    return 1


@router.command(epilog=examples("ebbing beat"))
def beat() -> None:
    """Trigger the workers' periodic tasks every few seconds. Several instances may run at once."""
    _require_settings(load_settings(), "redis_url")
    _celery().run_beat()


@router.command(epilog=examples("ebbing migrate", "EBBING_OWNER_DATABASE_URL=postgresql://… ebbing migrate"))
def migrate(
    revision: Annotated[str, typer.Option("--revision", help="Target schema revision.")] = "head",
    first_key: Annotated[bool, typer.Option("--first-key", hidden=True)] = False,
    as_json: AsJson = False,
) -> None:
    """Migrate the database to this version's schema, using EBBING_OWNER_DATABASE_URL if set.

    If the data was restored from a backup, the erasures that the data lacks are repeated, as by `ebbing privacy
    replay`. Policies with defaults of an earlier version get a new policy version with the current defaults; values
    set by a tenant don't change.
    """
    from app.cli.service.bootstrap import keep_key
    from app.services import migrations

    before, after = migrations.upgrade_schema(revision)
    if revision == "head":
        _replay()
        _follow_defaults()
    if first_key:  # used by `ebbing run`; in this process because starting another one takes half a second
        keep_key(load_settings().home / "api-key")
    if as_json:
        print_json({"from": before, "to": after})
    elif revision == "head" and before == after and before != migrations.newest_revision():
        typer.echo(f"schema: {before}, from a newer version, compatible with this one")
    else:
        typer.echo(f"schema: {before or 'empty'} → {after or 'empty'}")


def _replay() -> None:
    """Replay erasures if the service's settings are present; otherwise `/readyz` reports what to do."""
    config = load_settings()
    if config.database_url is None or config.redis_url is None:
        return
    from app.services.erasure import ledger

    standing = ledger.standing()
    if standing is None or not standing.is_behind:
        return
    from app.services.erasure import restore_replay

    replayed = sum(1 for _ in restore_replay.replay())
    typer.echo(f"erasures, requests and holds replayed: {replayed}", err=True)


def _follow_defaults() -> None:
    """Update stored policies to this version's defaults if the service's settings are present."""
    config = load_settings()
    if config.database_url is None or config.redis_url is None:
        return
    from app.services.tenants import policy_defaults

    followed = policy_defaults.upgrade_all()
    if followed:
        typer.echo(f"policies: {followed:,} tenants updated to this version's defaults", err=True)


def _celery() -> Any:
    """Return the module that runs Celery, imported by name: in the layer order, it is above this package."""
    return import_module("workers.programs")


def _require_settings(config: Settings, *names: str) -> None:
    for name in names:
        if getattr(config, name) is None:
            raise CommandFailure(
                f"EBBING_{name.upper()} isn't set: set it, or use `ebbing run`, which starts an embedded server"
            )


def _address(host: str) -> str:
    """Resolve a host name to an address, because granian doesn't."""
    import socket

    try:
        found = socket.getaddrinfo(host or None, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise CommandFailure(f"EBBING_HOST {host} can't be resolved ({error})", Code.USAGE) from None
    return str(found[0][4][0])


def _port(config: Settings) -> int:
    if config.port:
        return config.port
    from app.embedded import free_ports

    [port] = free_ports(1)
    typer.echo(f"listening on port {port}")
    return port
