"""`ebbing run`: run the complete service on this machine."""

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

from app.cli.core.connection import check_dynamics, load_settings, read_note
from app.cli.core.output import examples
from app.system.running_home import ProcessNote

if TYPE_CHECKING:
    from app.embedded import ServerOptions
    from app.settings import Settings
    from app.supervisor import Child, ChildEvent, Service

router = typer.Typer()


@router.command(
    epilog=examples("ebbing run", "ebbing run --home /srv/ebbing --port 9000", "EBBING_REDIS_URL=redis://… ebbing run")
)
def run(
    home: Annotated[
        Path | None,
        typer.Option(
            "--home",
            metavar="FOLDER",
            help="Folder for databases, logs and the first API key. Default: EBBING_HOME, or .ebbing in the current "
            "folder.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=0, max=65535, help="Port of the API; 0 picks a free port. Default: EBBING_PORT, or 8000."
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", help="Address on which the API listens. Default: EBBING_HOST, or 127.0.0.1.")
    ] = None,
    until_stdin_closes: Annotated[
        bool,
        typer.Option(
            "--until-stdin-closes",
            help="Stop when the standard input is closed, for example when the program that started the service ends.",
        ),
    ] = False,
) -> None:
    """Run the complete service on this machine: PostgreSQL, Redis, workers and the API.

    PostgreSQL is embedded unless EBBING_DATABASE_URL is set, and Redis is embedded unless EBBING_REDIS_URL is set.
    """
    began = time.monotonic()
    from app.supervisor import EventKind, Supervisor, claim_port, lock_home

    given = {"home": home, "port": port, "host": host}
    config = load_settings().model_copy(update={name: value for name, value in given.items() if value is not None})
    with lock_home(config.home) as locked, claim_port(config.host, config.port):
        service = plan_service(config, locked)
        note = ProcessNote(locked)
        show(f"Starting in {locked} …")

        def on_event(event: ChildEvent) -> None:
            note_process(note, event)
            print_event(event, lambda: banner(config, service, locked, time.monotonic() - began))
            if event.what == EventKind.UP and (remark := reembed_hint(service, locked)):
                show(remark)

        with announce_url(service, locked):
            lifeline = sys.stdin.fileno() if until_stdin_closes else None
            code = Supervisor(service.children, on_event, lifeline=lifeline).run()
    raise typer.Exit(code)


def plan_service(config: Settings, home: Path, options: ServerOptions | None = None) -> Service:
    """Return the service with its child processes; `migrate` also creates the first API key."""
    from app.lanes import LANES
    from app.supervisor import service_children

    check_dynamics()  # fail here instead of in the log of each process
    service = service_children(config, home, list(LANES), options)
    children = [_with_first_key(child) if child.name == "migrate" else child for child in service.children]
    return replace(service, children=tuple(children))


def _with_first_key(migrate: Child) -> Child:
    command = [*migrate.program.command, "--first-key"]
    return replace(migrate, program=replace(migrate.program, command=command))


@contextmanager
def announce_url(service: Service, home: Path) -> Iterator[None]:
    """Record the API's address in `home/api-url` while the service runs."""
    from app.embedded.data_dirs import write_private

    noted = home / "api-url"
    write_private(noted, f"{service.api_url}\n")
    try:
        yield
    finally:
        # Another program may get the port later and must not receive the key in the home.
        noted.unlink(missing_ok=True)


def note_process(note: ProcessNote, event: ChildEvent) -> None:
    """Keep the home's note of the running processes in step with the supervisor."""
    from app.supervisor import EventKind

    match event.what:
        case EventKind.STARTED | EventKind.RESTARTED:
            note.set(event.child, event.pid)
        case EventKind.DIED | EventKind.COMPLETED | EventKind.STOPPED:
            note.set(event.child, None)
        case EventKind.DOWN:
            note.delete()
        case _:
            pass


def print_event(event: ChildEvent, ready: Callable[[], str], *, err: bool = False) -> None:
    """Print the supervisor events that matter to a person."""
    from app.supervisor import EventKind

    match event.what:
        case EventKind.STARTING if event.message:
            show(f"  {event.message} …", err=err)
        case EventKind.WAITING if event.message:
            show(f"  {event.message} … {event.seconds or 0:.0f} s", err=err)
            if event.reason:
                show(f"  {event.reason}", err=err)
        case EventKind.UP:
            show(ready(), err=err)
        case EventKind.DIED | EventKind.OVERDUE | EventKind.FAILING | EventKind.GIVEN_UP:
            show(event.message, err=err)
        case EventKind.RESTARTED:
            show(f"{event.child} restarted (process {event.pid}).", err=err)
        case EventKind.KILLED:
            show(f"{event.child} didn't stop in time and was killed.", err=err)
        case EventKind.FAILED:
            show(f"ebbing: {event.message}", err=True)
        case EventKind.DOWN:
            show(f"Stopped in {event.seconds or 0:.1f} s.", err=err)
        case _:
            pass


def reembed_hint(service: Service, home: Path) -> str | None:
    """Return a hint to run `ebbing reembed` if the settings name another model than searches use."""
    from app.cli.core.client import Api
    from app.cli.core.connection import ApiConnection
    from app.cli.core.errors import CommandFailure

    try:
        with Api(ApiConnection(service.api_url, read_note(home / "api-key")), patience_seconds=1) as api:
            space = api.stats().get("embedding_space")
    except CommandFailure:
        return None  # `ebbing doctor` reports this
    if not space or space["is_settings"]:
        return None
    return (
        f"The embedding model in the settings has changed. Searches still use {space['model']} with "
        f"{space['dimensions']} dimensions until you run `ebbing reembed`."
    )


def show(text: str, *, err: bool = False) -> None:
    """Print a line; a closed output must not stop the service."""
    with suppress(OSError):
        print(text, file=sys.stderr if err else sys.stdout, flush=True)


def _embedded(folder: Path) -> str:
    """Describe where a server's data is stored: its folder or, for a link (as under root), the target and the link.

    Both are shown because deleting the home deletes only the link, not the data.
    """
    real = f"{folder.resolve()} (linked from {folder})" if folder.is_symlink() else folder
    return f"embedded, in {real}"


def banner(config: Settings, service: Service, home: Path, seconds: float) -> str:
    """Return the startup summary: addresses, data locations and next steps."""
    docs = f"{service.api_url}/docs" if config.docs_enabled else "off (EBBING_DOCS_ENABLED)"
    where = "" if home == Path(".ebbing").resolve() else f"EBBING_HOME={shlex.quote(str(home))} "
    provider = config.provider_address if config.has_provider else None
    lines = {
        "API": service.api_url,
        "Dashboard": f"{service.api_url}/ops",
        "Docs": docs,
        "API key": f"in {home / 'api-key'} (all scopes)",
        "PostgreSQL": "from EBBING_DATABASE_URL" if config.database_url else _embedded(home / "postgres"),
        "Redis": "from EBBING_REDIS_URL" if config.redis_url else _embedded(home / "redis"),
        "Embedder": "local, bundled, works offline"
        if config.embedder == "local"
        else f"{config.embedder_model}, via {'the provider' if config.embedder == 'openai' else config.embedder}",
        "Salience": f"{config.salience_model} at {provider}, rule-based until rated"
        if provider
        else "rule-based, works offline",
        "Provider": provider or "none (optional)",
        "Logs": f"{home / 'logs'}",
        "Try": f"{where}ebbing doctor",
        "Stop": "Ctrl-C",
    }
    return "\n".join([f"Ready in {seconds:.1f} s.", *(f"  {name:<12}{text}" for name, text in lines.items())])
