"""The floor of ingest: a server that only reads and parses the body and returns a constant.

It runs under granian with the same settings as `ebbing api`. `python -m ops.bench.floors.bare PORT` serves it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from granian import Granian
from granian.constants import HTTPModes, Interfaces, Loops
from granian.http import HTTP1Settings
from granian.log import LogLevels

from app.cli.service.processes import BACKLOG, limit_connections
from app.settings import settings
from app.system.parent_death import die_with_parent

_START = {
    "type": "http.response.start",
    "status": 202,
    "headers": [(b"content-type", b"application/json"), (b"content-length", b"2")],
}
_BODY = {"type": "http.response.body", "body": b"{}"}


async def app(scope: dict[str, Any], receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
    """Read and parse the body, and respond."""
    if scope["type"] != "http":
        return
    message = await receive()
    body = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
    if body:
        msgspec.json.decode(body)
        await send(_START)
    else:
        await send(_START | {"status": 200})
    await send(_BODY)


def main() -> None:
    """Serve on the port that the command line gives."""
    serve("ops.bench.floors.bare:app", app, Interfaces.ASGINL)


def serve(target: str, served: Callable[..., Any], interface: Interfaces) -> None:
    """Serve an application on the port that the command line gives, with the settings of `ebbing api`."""
    server = Granian(
        target,
        address="127.0.0.1",
        port=int(sys.argv[1]),
        interface=interface,
        workers=1,
        loop=Loops.uvloop,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=int(settings().request_headers_timeout_seconds * 1000)),
        websockets=False,
        backlog=BACKLOG,
        backpressure=limit_connections(settings().connections_max),
        log_access=False,
        log_level=LogLevels.warning,
    )
    server.serve(target_loader=partial(_load, os.getpid(), served), wrap_loader=False)


def _load(server: int, served: Callable[..., Any]) -> Callable[..., Any]:
    die_with_parent(server)
    return served


if __name__ == "__main__":
    main()
