"""`/mcp`: the MCP server over streamable HTTP, for protocol versions with and without a handshake, without sessions.

The MCP library is loaded at the first request with a valid key, so that an API whose clients don't use MCP spends
neither memory nor start time on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlencode, urlsplit

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.http.auth import Caller, cache
from app.api.http.problem_responses import as_ours, respond
from app.api.http.request_body import header, read
from app.api.http.request_ids import carry_ids, get_ids
from app.errors import EbbingError
from app.mcp.backend import Params, Reply, describe_problem
from app.settings import settings

LOCAL: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_BACKEND: Final = "ebbing.mcp"
_REQUEST: Final = "POST /mcp"


class WrongMethod(EbbingError):
    """Request with another method than POST: the server keeps no sessions and sends nothing unasked."""

    status, type, title = 405, "method-not-allowed", "Method not allowed for this path"


class WrongHost(EbbingError):
    """Request for a host that isn't allowed, or from a page of such a host."""

    status, type, title = 421, "wrong-host", "The host isn't allowed for /mcp"


class McpEndpoint:
    """ASGI endpoint of the server."""

    def __init__(self) -> None:
        """Start without the library."""
        self._served: ASGIApp | None = None
        self._api: ASGIApp | None = None

    def connect(self, api: ASGIApp) -> None:
        """Use this application, with its middleware, for the requests of tools."""
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one message of the protocol."""
        ids = get_ids(scope)
        try:
            _check_request(scope)
            caller = await cache.any_caller(scope)
            body = await read(scope, receive)
        except Exception as error:  # noqa: BLE001 - every failure gets a response
            response = respond(as_ours(error), ids, _REQUEST)
            if response.status_code == 405:
                response.headers["allow"] = "POST"
            await response(scope, receive, send)
            return
        assert self._api is not None  # noqa: S101 - the application connects itself when it is built
        if self._served is None:
            self._served = await run_in_threadpool(_load)
        backend = RouteBackend(self._api, caller, scope)
        await self._served({**scope, _BACKEND: backend}, _replay(body, receive), send)


class RouteBackend:
    """Access to the routes of this process with the key of a request."""

    def __init__(self, api: ASGIApp, caller: Caller, outer: Scope) -> None:
        """Send the key, the trace context and the call ID of the outer request with each request."""
        self._api = api
        self._caller = caller
        self._outer = outer
        carried = {name: header(outer, name.encode()) for name in ("authorization", "traceparent")}
        self._headers = {name: value for name, value in carried.items() if value is not None}

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes of the key."""
        return self._caller.scopes

    @property
    def owner(self) -> str:
        """The id of the key's tenant."""
        return str(self._caller.tenant_id)

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send a request to a route; see `Backend`."""
        sent = b"" if body is None else msgspec.json.encode(body)
        given = self._headers | dict(headers or {}) | {"content-type": "application/json"}
        scope: Scope = {
            "type": "http",
            "asgi": self._outer.get("asgi", {"version": "3.0"}),
            "http_version": "1.1",
            "method": method,
            "scheme": self._outer.get("scheme", "http"),
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": urlencode(params or {}, doseq=True).encode(),
            "root_path": "",
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in given.items()],
            "client": self._outer.get("client"),
            "server": self._outer.get("server"),
            "state": carry_ids(get_ids(self._outer)),
        }
        status, content = await _collect(self._api, scope, sent)
        decoded = msgspec.json.decode(content) if content else {}
        if status >= 400:
            raise describe_problem(status, decoded)
        return Reply(status, decoded)


def _load() -> ASGIApp:
    """Import the library and build the server, which takes about a second."""
    from app.mcp import server  # noqa: PLC0415 - see the module's docstring

    config = settings()
    return server.build_app(config.mcp_tools, config.request_body_max_bytes, lambda request: request.scope[_BACKEND])


def _check_request(scope: Scope) -> None:
    """Refuse methods other than POST, and requests of other sites' pages, which includes DNS rebinding.

    Raises:
        WrongMethod: The method isn't POST.
        WrongHost: The host, or the origin of a browser's page, isn't allowed.
    """
    if scope["method"] != "POST":
        raise WrongMethod("send messages of the protocol with POST")
    config = settings()
    allowed = LOCAL | config.mcp_hosts | {config.host, urlsplit(config.public_url or "").hostname or ""}
    if "*" in allowed:
        return
    for name, address in (("Host", f"//{header(scope, b'host') or ''}"), ("Origin", header(scope, b"origin") or "")):
        if name == "Origin" and not address:
            continue
        if _hostname(address) not in allowed:
            raise WrongHost(f"the header {name} names a host that EBBING_MCP_HOSTS and EBBING_PUBLIC_URL don't allow")


def _hostname(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first returns the body that was read already, and then the messages after it."""
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


async def _collect(api: ASGIApp, scope: Scope, body: bytes) -> tuple[int, bytes]:
    """Send a request to an application, and return the status and the body of its response."""
    status, parts, is_sent = 500, [], False

    async def receive() -> Message:
        nonlocal is_sent
        if is_sent:
            return {"type": "http.disconnect"}
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            parts.append(message.get("body", b""))

    await api(scope, receive, send)
    return status, b"".join(parts)
