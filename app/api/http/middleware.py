"""ASGI middleware of every request: request id, security headers, and counting of outcomes."""

from __future__ import annotations

import re
from uuid import uuid4

import structlog
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import metrics
from app.api.http.problem_responses import respond
from app.api.http.request_body import header
from app.errors import NotReplayed
from app.services.erasure import ledger
from app.services.transient_errors import is_transient

INGEST_PATH = "/v1/memories"
SEARCH_PATH = "/v1/search"
_OURS = "/v1/"
_GIVEN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HEADERS = [(b"x-content-type-options", b"nosniff")]
# Headers added unless the response sets them.
_DEFAULTS = [(b"cache-control", b"no-store"), (b"referrer-policy", b"no-referrer")]

log = structlog.get_logger(__name__)


class Guard:
    """Middleware around the application; passes ingest requests and searches to their endpoints, bypassing FastAPI."""

    def __init__(self, inner: ASGIApp, ingest: ASGIApp, search: ASGIApp) -> None:
        """Wrap an application and the endpoints of `POST /v1/memories` and `POST /v1/search`."""
        self._inner = inner
        self._endpoints = {INGEST_PATH: ingest, SEARCH_PATH: search}
        self._counts = {status: metrics.REQUESTS.labels(status=status) for status in metrics.STATUSES}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        given = header(scope, b"x-request-id")
        request_id = given if given and _GIVEN_ID.fullmatch(given) else uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id

        async def answered(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._counts[f"{message['status'] // 100}xx"].inc()
                said = {name for name, _ in message["headers"]}
                added = [(name, value) for name, value in _DEFAULTS if name not in said]
                message["headers"] = [*message["headers"], *_HEADERS, *added, (b"x-request-id", request_id.encode())]
            await send(message)

        ours = scope["path"].startswith(_OURS)
        if ours and (refusal := await _refusal()) is not None:
            await respond(refusal, request_id, "any route")(scope, receive, answered)
            return
        endpoint = self._endpoints.get(scope["path"], self._inner) if scope["method"] == "POST" else self._inner
        is_ingest = endpoint is self._endpoints[INGEST_PATH]  # reads no stored data
        last = _watched(scope, receive, answered, request_id) if ours and not is_ingest else answered
        try:
            await endpoint(scope, receive, last)
        except Exception as error:  # noqa: BLE001 - a response was sent; the server's log would quote the message
            log.info("request_failed", request_id=request_id, error=type(error).__name__)


def _watched(scope: Scope, receive: Receive, send: Send, request_id: str) -> Send:
    """Return a `send` that discards the response if the database was swapped during the request."""
    withheld = False

    async def watched(message: Message) -> None:
        nonlocal withheld
        if message["type"] == "http.response.start" and (refusal := await _refusal()) is not None:
            withheld = True
            await respond(refusal, request_id, "any route")(scope, receive, send)
        if not withheld:
            await send(message)

    return watched


async def _refusal() -> NotReplayed | None:
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
