"""Call the ASGI application as a client would: its own event loop, with startup and shutdown run by hand."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from functools import cache, cached_property
from typing import Any, Self, TypeVar, cast

import httpx
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.types import ASGIApp, Message, Receive

from app.clients.redis.connection import connect_async
from app.clients.redis.stream import StreamWriter
from app.domain.policy.api_keys import SCOPES
from app.main import build, serve_ingest
from app.queues import DRAIN, Nudger
from app.services.ingest.witness import Witness
from tests.service import Service, Tenant
from tests.waiting import PATIENCE_SECONDS

T = TypeVar("T")
MANY = 128


class Api:
    """Client of the application that sends one tenant's key unless another key is given."""

    def __init__(self, service: Service, app: FastAPI | None = None) -> None:
        """Serve a new application or, which is much quicker, these routes without the application's start and end."""
        self.service = service
        self._routes = app
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="api under test")
        self._wishes: asyncio.Queue[Message] = asyncio.Queue()
        self._news: asyncio.Queue[Message] = asyncio.Queue()

    @cached_property
    def tenant(self) -> Tenant:
        """The tenant whose key is sent by default."""
        return self.service.tenant()

    @cached_property
    def admin(self) -> Tenant:
        """A tenant whose key has every scope."""
        return self.service.tenant(scopes=SCOPES)

    def change_tenant(self) -> None:
        """Send the key of a new tenant from now on."""
        self.__dict__.pop("tenant", None)

    def __enter__(self) -> Self:
        self._thread.start()
        self.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the application's event loop and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=PATIENCE_SECONDS)

    async def send(self, method: str, path: str, *, key: str | None = "", **given: Any) -> httpx.Response:
        """Send a request with this key; "" means the tenant's key, None means no key."""
        headers = httpx.Headers(given.pop("headers", None))
        if key is not None:
            headers.setdefault("authorization", f"Bearer {key or self.tenant.key}")
        return await self._client.request(method, path, headers=headers, **given)

    def request(self, method: str, path: str, **given: Any) -> httpx.Response:
        if given.get("key", "") == "":
            self.tenant  # noqa: B018 - creates the tenant outside the loop
        return self.run(self.send(method, path, **given))

    def get(self, path: str, **given: Any) -> httpx.Response:
        return self.request("GET", path, **given)

    def post(self, path: str, **given: Any) -> httpx.Response:
        return self.request("POST", path, **given)

    def put(self, path: str, **given: Any) -> httpx.Response:
        return self.request("PUT", path, **given)

    def patch(self, path: str, **given: Any) -> httpx.Response:
        return self.request("PATCH", path, **given)

    def delete(self, path: str, **given: Any) -> httpx.Response:
        return self.request("DELETE", path, **given)

    def remember(self, *memories: str | dict[str, Any], key: str = "", work: bool = True) -> list[str]:
        """Post memories, wait until they are stored and searchable, and return their ids."""
        bodies = [{"text": memory} if isinstance(memory, str) else memory for memory in memories]
        answer = self.post("/v1/memories", json=bodies, key=key)
        assert answer.status_code == 202, answer.text
        if work:
            self.service.work()
        ids: list[str] = answer.json()["ids"]
        return ids

    def serve(self, method: str, path: str, receive: Receive) -> int:
        """Send a request whose body comes from `receive`, without an HTTP client, and return the status."""
        sent: list[Message] = []
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": b"",
            "headers": [(b"authorization", f"Bearer {self.tenant.key}".encode())],
        }

        async def send(message: Message) -> None:
            sent.append(message)

        async def served() -> None:
            await self._app(scope, receive, send)

        self.run(served())
        status: int = sent[0]["status"]
        return status

    def paths(self) -> set[str]:
        """Return the paths of all routes of the application, documented or not."""
        return {
            context.path for context in iter_route_contexts(routes_of(self._app).routes) if context.path is not None
        }

    async def _start(self) -> None:
        self._app = build() if self._routes is None else self._around(self._routes)
        if self._routes is None:
            self._life = asyncio.ensure_future(self._live())
            await self._wishes.put({"type": "lifespan.startup"})
            started = await self._news.get()
            assert started["type"] == "lifespan.startup.complete", started
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(cast("Any", self._app), raise_app_exceptions=False),
            base_url="http://test",
            timeout=PATIENCE_SECONDS,
            limits=httpx.Limits(max_connections=MANY),
        )

    async def _live(self) -> None:
        await self._app({"type": "lifespan"}, self._wishes.get, self._news.put)

    def _around(self, routes: FastAPI) -> ASGIApp:
        """Put what `build` puts around its routes, with state of this test, around these routes."""
        self._redis, self._nudger = connect_async(), Nudger(DRAIN)
        return serve_ingest(routes, StreamWriter(self._redis), self._nudger, Witness())

    async def _stop(self) -> None:
        await self._client.aclose()
        if self._routes is None:
            await self._wishes.put({"type": "lifespan.shutdown"})
            await self._life
            return
        self._nudger.close()
        await self._redis.aclose()


@cache
def standing_routes() -> FastAPI:
    """Return routes that tests share, built with the settings of the first of them."""
    routes = routes_of(build())
    routes.state.nudger.close()
    return routes


def routes_of(app: ASGIApp) -> FastAPI:
    """Return the application inside its middleware."""
    inner = cast("Any", app)
    while not isinstance(inner, FastAPI):
        inner = inner._inner
    return inner


def fields(answer: httpx.Response) -> list[str]:
    """Check the shape of a problem response and return the fields it names."""
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem.keys() - {"omitted_errors"} == {
        "type",
        "title",
        "status",
        "detail",
        "errors",
        "request_id",
        "call_id",
    }
    assert problem["status"] == answer.status_code
    assert problem["type"].startswith("urn:ebbing:problem:")
    assert problem["request_id"] == answer.headers["x-request-id"]
    assert problem["call_id"] == answer.headers["ebbing-call-id"]
    return [error["field"] for error in problem["errors"]]
