"""`ebbing run`: the whole service on this machine."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.core.output import examples
from app.cli.core.place import check_dynamics, configuration, noted

if TYPE_CHECKING:
    from app.embedded import ServerOptions
    from app.settings import Settings
    from app.supervisor import Child, Event, Service

router = typer.Typer()


@router.command(
    epilog=examples("ebbing run", "ebbing run --home /srv/ebbing --port 9000", "EBBING_REDIS_URL=redis://… ebbing run")
)
def run(
    home: Annotated[
        Path | None,
        typer.Option("--home", help="Folder of databases, logs and the first key; else EBBING_HOME."),
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Port of the API; 0 takes a free one.")
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Address the API listens on.")] = None,
) -> None:
    """Run the whole service on this machine: PostgreSQL, Redis, workers and the API.

    PostgreSQL and Redis come along, unless EBBING_DATABASE_URL or EBBING_REDIS_URL name others.
    """
    began = time.monotonic()
    from app.supervisor import Supervisor, What, lock_home

    given = {"home": home, "port": port, "host": host}
    config = configuration().model_copy(update={name: value for name, value in given.items() if value is not None})
    with lock_home(config.home) as locked:
        service = lay_out(config, locked)
        show(f"Starting in {locked} …")

        def on_event(event: Event) -> None:
            tell(event, lambda: banner(config, service, locked, time.monotonic() - began))
            if event.what == What.UP and (remark := moved_on(service, locked)):
                show(remark)

        with announced(service, locked):
            code = Supervisor(service.children, on_event).run()
    raise typer.Exit(code)


def lay_out(config: Settings, home: Path, options: ServerOptions | None = None) -> Service:
    """The children of a home: those of the service, with the first key made after the migrations."""
    from app.queues import LANES
    from app.supervisor import service_children

    check_dynamics()  # else each process would say so in a log of its own
    service = service_children(config, home, list(LANES), options)
    children = [_with_first_key(child) if child.name == "migrate" else child for child in service.children]
    return replace(service, children=tuple(children))


def _with_first_key(migrate: Child) -> Child:
    command = [*migrate.program.command, "--first-key"]
    return replace(migrate, program=replace(migrate.program, command=command))


@contextmanager
def announced(service: Service, home: Path) -> Iterator[None]:
    """Meanwhile, `home/api-url` says where the API is."""
    from app.embedded.places import write_private

    noted = home / "api-url"
    write_private(noted, f"{service.api_url}\n")
    try:
        yield
    finally:
        # Another program may get the port: the key in the home isn't for it.
        noted.unlink(missing_ok=True)


def tell(event: Event, ready: Callable[[], str], *, err: bool = False) -> None:
    """Print what a person wants to know of an event."""
    from app.supervisor import What

    match event.what:
        case What.UP:
            show(ready(), err=err)
        case What.DIED | What.OVERDUE:
            show(event.message, err=err)
        case What.RESTARTED:
            show(f"{event.child} started again (process {event.pid}).", err=err)
        case What.KILLED:
            show(f"{event.child} didn't stop in its time and was killed.", err=err)
        case What.FAILED:
            show(f"ebbing: {event.message}", err=True)
        case What.DOWN:
            show(f"Stopped in {event.seconds or 0:.1f} s.", err=err)
        case _:
            pass


def moved_on(service: Service, home: Path) -> str | None:
    """What to do where the settings name another embedder than the one that memories are searched by."""
    from app.cli.core.client import Api
    from app.cli.core.failures import Failure
    from app.cli.core.place import Place

    try:
        with Api(Place(service.api_url, noted(home / "api-key")), patience_seconds=1) as api:
            space = api.stats().get("embedding_space")
    except Failure:
        return None  # the doctor says more
    if not space or space["is_settings"]:
        return None
    return (
        f"The embedding model has changed. Memories are still searched by {space['model']} with "
        f"{space['dimensions']} dimensions, until `ebbing reembed` has moved them."
    )


def show(text: str, *, err: bool = False) -> None:
    """Print a line. That nobody listens any more is no reason to stop the service."""
    with suppress(OSError):
        print(text, file=sys.stderr if err else sys.stdout, flush=True)


def banner(config: Settings, service: Service, home: Path, seconds: float) -> str:
    """What runs, where, and how to go on."""
    docs = f"{service.api_url}/docs" if config.docs_enabled else "off (EBBING_DOCS_ENABLED)"
    where = "" if home == Path(".ebbing").resolve() else f"EBBING_HOME={shlex.quote(str(home))} "
    host = config.provider_host if config.has_provider else None
    lines = {
        "API": service.api_url,
        "Dashboard": f"{service.api_url}/ops",
        "Docs": docs,
        "API key": f"in {home / 'api-key'} (all scopes)",
        "PostgreSQL": "by EBBING_DATABASE_URL" if config.database_url else f"embedded, in {home / 'postgres'}",
        "Redis": "by EBBING_REDIS_URL" if config.redis_url else f"embedded, in {home / 'redis'}",
        "Embedder": "local, bundled, works offline"
        if config.embedder == "local"
        else f"{config.embedder_model}, by {'URL' if config.embedder == 'openai' else config.embedder}",
        "Salience": f"by {config.salience_model} at {host}, rules until then" if host else "by rules, works offline",
        "Provider": host or "none, and none is needed",
        "Logs": f"{home / 'logs'}",
        "Try": f"{where}ebbing doctor",
        "Stop": "Ctrl-C",
    }
    return "\n".join([f"Ready in {seconds:.1f} s.", *(f"  {name:<12}{text}" for name, text in lines.items())])
