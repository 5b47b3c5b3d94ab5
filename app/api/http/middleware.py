"""ASGI middleware of every request: request id, security headers, and counting of outcomes."""

from __future__ import annotations

import re
import time

import structlog
from prometheus_client import Histogram
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import metrics
from app.api.http.problem_responses import respond
from app.api.http.request_body import header
from app.api.http.request_ids import RequestIds, assign_ids
from app.errors import NotReplayed
from app.services.erasure import ledger
from app.services.transient_errors import is_transient

INGEST_PATH = "/v1/memories"
SEARCH_PATH = "/v1/search"
MCP_PATH = "/mcp"
_OURS = ("/v1/", "/memory-decay/")
_DASHBOARD = "/ops"
_METHODS = frozenset({"DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"})
_GIVEN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HEADERS = [(b"x-content-type-options", b"nosniff")]
# Headers added unless the response sets them.
_DEFAULTS = [(b"cache-control", b"no-store"), (b"referrer-policy", b"no-referrer")]

log = structlog.get_logger(__name__)


class Guard:
    """Middleware around the application; passes ingest requests and searches to their endpoints, bypassing FastAPI."""

    def __init__(self, inner: ASGIApp, ingest: ASGIApp, search: ASGIApp, mcp: ASGIApp | None = None) -> None:
        """Wrap an application and the endpoints of `POST /v1/memories`, `POST /v1/search` and, if given, `/mcp`."""
        self._inner = inner
        self._endpoints = {INGEST_PATH: ingest, SEARCH_PATH: search} | ({MCP_PATH: mcp} if mcp else {})
        self._counts = {status: metrics.REQUESTS.labels(status=status) for status in metrics.STATUSES}
        self._seconds = {path: metrics.ROUTE_SECONDS.labels("POST", path) for path in self._endpoints}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        given = header(scope, b"x-request-id")
        ids = assign_ids(scope, given if given and _GIVEN_ID.fullmatch(given) else None)
        own_headers = [*_HEADERS, (b"x-request-id", ids.shown.encode()), (b"ebbing-call-id", ids.call_id.encode())]
        began = time.perf_counter()
        path = scope["path"] if scope["method"] == "POST" or scope["path"] == MCP_PATH else ""
        endpoint = self._endpoints.get(path, self._inner)

        async def answered(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._counts[f"{message['status'] // 100}xx"].inc()
                is_known = path in self._seconds and scope["method"] == "POST"
                seconds = self._seconds[path] if is_known else _route_seconds(scope)
                seconds.observe(time.perf_counter() - began)
                said = {name for name, _ in message["headers"]}
                added = [(name, value) for name, value in _DEFAULTS if name not in said]
                message["headers"] = [*message["headers"], *own_headers, *added]
            await send(message)

        ours = scope["path"].startswith(_OURS)
        if ours and (refusal := await find_refusal()) is not None:
            await respond(refusal, ids, "any route")(scope, receive, answered)
            return
        reads = ours and path != INGEST_PATH  # ingest reads no stored data
        last = _watched(scope, receive, answered, ids) if reads else answered
        try:
            await endpoint(scope, receive, last)
        except Exception as error:  # noqa: BLE001 - a response was sent; the server's log would quote the message
            log.info("request_failed", call_id=ids.call_id, error=type(error).__name__)


def _route_seconds(scope: Scope) -> Histogram:
    """Return the series of the request's route, named by its template, so that no id becomes a label.

    All pages of the dashboard count as one route.
    """
    route = _DASHBOARD if scope["path"].startswith(_DASHBOARD) else getattr(scope.get("route"), "path", None)
    if route is None or scope["method"] not in _METHODS:
        return metrics.ROUTE_SECONDS.labels("other", "other")
    return metrics.ROUTE_SECONDS.labels(scope["method"], route)


def _watched(scope: Scope, receive: Receive, send: Send, ids: RequestIds) -> Send:
    """Return a `send` that replaces the response by a refusal if a backup was restored during the request."""
    withheld = False

    async def watched(message: Message) -> None:
        nonlocal withheld
        if message["type"] == "http.response.start" and (refusal := await find_refusal()) is not None:
            withheld = True
            await respond(refusal, ids, "any route")(scope, receive, send)
        if not withheld:
            await send(message)

    return watched


async def find_refusal() -> NotReplayed | None:
    """Return the reason to refuse all requests, if any. If the database is down, the request itself will fail later."""
    if ledger.is_clear():
        return None
    try:
        await run_in_threadpool(ledger.check)
    except NotReplayed as error:
        return error
    except Exception as error:
        if not is_transient(error):
            raise
    return None
