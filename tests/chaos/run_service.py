"""Run `ebbing run` with unlimited restarts, behind proxies and with a preloaded clock.

    python -m tests.chaos.run_service HOME PORT EVENTS

`CHAOS_PROXIES` names the ports at which the service's own processes reach PostgreSQL and Redis; `CHAOS_LIBRARY` the
library to preload, if there is one.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from app.embedded import EmbeddedError
from app.supervisor import Child, Service
from tests.faults.run_service import main

SERVERS: Final = ("postgres", "redis")
SERVICE: Final = "service"
_PORT: Final = re.compile(r"(?<=127\.0\.0\.1:)(\d+)")


def shim_file(home: Path, name: str) -> Path:
    """Return the file that controls the preloaded library of a server, or of the service's own processes."""
    return home / "shim" / name


def change_environment(child: Child, home: Path, ports: Mapping[str, int]) -> Child:
    """Return a child that reaches the servers through their proxies, with the preloaded library."""
    given = dict(child.program.environment)
    if child.name not in SERVERS:
        for name, server in (("EBBING_DATABASE_URL", "postgres"), ("EBBING_REDIS_URL", "redis")):
            given[name] = _PORT.sub(str(ports[server]), given[name], count=1)
    if library := os.environ.get("CHAOS_LIBRARY"):
        control = shim_file(home, child.name if child.name in SERVERS else SERVICE)
        given |= {"LD_PRELOAD": library, "CHAOS_SHIM": str(control)}
    return replace(child, program=replace(child.program, environment=given))


def behind_proxies(service: Service, home: Path) -> Service:
    """Return the service behind proxies, and tell these the servers' ports."""
    ports = dict(zip(SERVERS, map(int, os.environ["CHAOS_PROXIES"].split()), strict=True))
    for server, url in zip(SERVERS, (service.owner_database_url, service.redis_url), strict=True):
        [port] = _PORT.findall(url)
        draft = home / "targets" / f".{server}"
        draft.write_text(port)
        draft.replace(home / "targets" / str(ports[server]))
    return replace(service, children=tuple(change_environment(child, home, ports) for child in service.children))


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), behind_proxies))
    except EmbeddedError as error:
        sys.exit(str(error))
