"""Run `ebbing run` with unlimited restarts, and append each event to a file as a line of JSON.

    python -m tests.faults.run_service HOME PORT EVENTS

Each start also records the URLs of its servers, whose ports are new.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from app.cli.core.connection import load_settings
from app.cli.service.run import announce_url, plan_service
from app.embedded import EmbeddedError
from app.supervisor import ChildEvent, RestartPolicy, Service, Supervisor, lock_home

PATIENT = RestartPolicy(deaths_max=1_000_000)


class Line(msgspec.Struct):
    """An event, or the server URLs of a start, with the supervisor's pid."""

    supervisor: int
    event: ChildEvent | None = None
    owner_url: str = ""
    redis_url: str = ""


def record_line(events: Path, line: Line) -> None:
    """Append a line to the file of events."""
    with events.open("ab") as file:
        file.write(msgspec.json.encode(line) + b"\n")


def main(
    home: Path, port: int, events: Path, arrange: Callable[[Service, Path], Service] = lambda service, _: service
) -> int:
    """Run the service that `arrange` makes of the planned one and its locked home."""
    config = load_settings().model_copy(update={"home": home, "port": port})
    with lock_home(home) as locked:
        service = plan_service(config, locked)
        record_line(events, Line(os.getpid(), None, service.owner_database_url, service.redis_url))
        service = arrange(service, locked)
        with announce_url(service, locked):
            return Supervisor(
                service.children, lambda event: record_line(events, Line(os.getpid(), event)), PATIENT
            ).run()


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
    except EmbeddedError as error:
        sys.exit(str(error))
