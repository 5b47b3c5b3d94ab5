"""`ebbing demo`: run the complete service in a temporary folder and show what it does."""

from __future__ import annotations

import shlex
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.core.connection import ApiConnection, load_settings, read_note
from app.cli.core.errors import CommandFailure
from app.cli.core.output import AsJson, examples, print_json
from app.cli.service.run import announce_url, plan_service, print_event, show

if TYPE_CHECKING:
    from app.cli.demo.client import TourReport
    from app.settings import Settings
    from app.supervisor import ChildEvent, Service

router = typer.Typer()

# After a stop of the service the tour's requests fail, so its thread ends soon.
LET_GO_SECONDS: Final = 2.0


@router.command(epilog=examples("ebbing demo", "ebbing demo --json", "ebbing demo --keep"))
def demo(
    as_json: AsJson = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the service's folder, for inspection or `ebbing run --home`.")
    ] = False,
) -> None:
    """Demonstrate Ebbing with one year of memories of a fictional team. This takes about half a minute.

    The demo starts the complete service in a temporary folder, uses it over HTTP like any client, and then simulates
    one month in another temporary folder. It deletes both folders at the end.
    """
    from app.cli.demo import report, simulate
    from app.supervisor import lock_home, temporary_home

    with temporary_home("ebbing-demo-", keep=keep) as home, lock_home(home) as locked:
        config = load_settings().model_copy(
            update={
                "home": locked,
                "host": "127.0.0.1",
                "port": 0,
                "database_url": None,
                "owner_database_url": None,
                "redis_url": None,
            }
        )
        found, start_seconds = _tour(config, locked, as_json=as_json)
        if keep:
            show(f"Folder kept. Start it with: ebbing run --home {shlex.quote(str(locked))}", err=as_json)
    if not as_json:
        show("Simulating a month …", err=True)
    outcomes = simulate.simulate_month(quiet=as_json)
    if not as_json:
        report.show_month(outcomes)
        return
    print_json({**_as_json(found, start_seconds), "month": [simulate.render_outcome(one) for one in outcomes]})


def _tour(config: Settings, home: Path, *, as_json: bool) -> tuple[TourReport, float]:
    """Run the service in the main thread, which the supervisor requires, and the tour in another thread."""
    from app.supervisor import EventKind, Supervisor

    began = time.monotonic()
    service = plan_service(config, home)
    ended: list[Exception | tuple[TourReport, float]] = []

    def visit() -> None:
        seconds = time.monotonic() - began
        try:
            ended.append((_visit(service, home, seconds, rated=config.has_provider, as_json=as_json), seconds))
        except Exception as error:  # noqa: BLE001 - raised again in the main thread
            ended.append(error)
        finally:
            supervisor.request_stop()

    visitor = threading.Thread(target=visit, name="tour", daemon=True)

    def on_event(event: ChildEvent) -> None:
        if event.what == EventKind.UP:
            visitor.start()
        elif event.what != EventKind.DOWN:
            print_event(event, str, err=True)

    if not as_json:
        show("Starting PostgreSQL, Redis, the workers and the API …", err=True)
    supervisor = Supervisor(service.children, on_event)
    with announce_url(service, home):
        code = supervisor.run()
    if visitor.ident is not None:
        visitor.join(LET_GO_SECONDS)
    if not ended or (code and not isinstance(ended[0], Exception)):
        raise CommandFailure("the demo was interrupted" if not code else "the service stopped unexpectedly")
    if isinstance(ended[0], Exception):
        raise ended[0]
    return ended[0]


def _visit(service: Service, home: Path, start_seconds: float, *, rated: bool, as_json: bool) -> TourReport:
    from app.cli.demo import client, report

    place = ApiConnection(service.api_url, read_note(home / "api-key"))
    found = client.run_tour(place, rated=rated, quiet=as_json)
    if not as_json:
        report.show_report(found, start_seconds)
    if found.wrong:
        if as_json:
            print_json(_as_json(found, start_seconds))
        raise CommandFailure("the demo failed: " + "; ".join(found.wrong))
    return found


def _as_json(found: TourReport, start_seconds: float) -> dict[str, Any]:
    return {"start_seconds": round(start_seconds, 3), **asdict(found), "found": found.found_count, "wrong": found.wrong}
