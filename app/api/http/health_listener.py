"""Answer health probes on a port of its own, which stays free when connections fill the API's port.

The listener runs in the API's event loop, so it answers exactly as long as the API does. It keeps few connections, and
closes the oldest one for a new one: silent sockets can't lock a probe out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec
from starlette.concurrency import run_in_threadpool

from app.services.monitoring import probes

CONNECTIONS_MAX: Final = 64
REQUEST_SECONDS: Final = 2.0
"""Timeout for receiving a request; each connection serves one request."""
_HEAD_MAX_BYTES: Final = 8192
_REASONS: Final = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


def describe_liveness() -> tuple[int, dict[str, Any]]:
    """Return the status and body of `/healthz`, without checking any dependency."""
    return 200, {"status": "ok"}


def describe_readiness() -> tuple[int, dict[str, Any]]:
    """Return the status and body of `/readyz`: 200 if PostgreSQL, its schema and Redis are healthy, otherwise 503."""
    found = [{"name": one.name, "well": one.severity == "ok", "detail": one.detail} for one in probes.readiness()]
    is_ready = all(one["well"] for one in found)
    return 200 if is_ready else 503, {"status": "ready" if is_ready else "not ready", "dependencies": found}


def describe_start() -> tuple[int, dict[str, Any]]:
    """Return the status and body of `/startz`: 503 if this version can't work with the database as it is deployed.

    Unlike `/readyz`, it ignores faults that pass: a process that starts while PostgreSQL or Redis is away or full
    answers requests as well as one that was there before.
    """
    found = [{"name": one.name, "detail": one.detail} for one in probes.deployment_faults()]
    return 503 if found else 200, {"status": "can't start" if found else "started", "dependencies": found}


_ANSWERS: Final[dict[str, Callable[[], tuple[int, dict[str, Any]]]]] = {
    "/healthz": describe_liveness,
    "/readyz": describe_readiness,
    "/startz": describe_start,
}


class HealthListener:
    """HTTP listener for `GET /healthz`, `GET /readyz` and `GET /startz`."""

    def __init__(self) -> None:
        """Start without connections."""
        self._open: dict[asyncio.StreamWriter, None] = {}
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen on an address.

        Raises:
            OSError: The port is taken.
        """
        self._server = await asyncio.start_server(self._serve, host, port, limit=_HEAD_MAX_BYTES)

    async def stop(self) -> None:
        """Stop listening, and close all connections."""
        if self._server is not None:
            self._server.close()
        for writer in self._open:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= CONNECTIONS_MAX:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.close()
        self._open[writer] = None
        try:
            with suppress(TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
                async with asyncio.timeout(REQUEST_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await _answer(head))
                await writer.drain()
        finally:
            self._open.pop(writer, None)
            writer.close()


async def _answer(head: bytes) -> bytes:
    """Return the response to a request's head."""
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    describe = _ANSWERS.get(rest.partition(" ")[0].partition("?")[0])
    if describe is None:
        status, shown = 404, {"status": "only /healthz, /readyz and /startz are served here"}
    elif method not in ("GET", "HEAD"):
        status, shown = 405, {"status": "send GET"}
    else:
        status, shown = await run_in_threadpool(describe)
    body = msgspec.json.encode(shown)
    lines = [
        f"HTTP/1.1 {status} {_REASONS[status]}",
        "content-type: application/json",
        f"content-length: {len(body)}",
        "connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + (b"" if method == "HEAD" else body)
