"""The ASGI application in a loop of its own, its start and stop run by hand, called as a client would."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from functools import cached_property
from typing import Any, Self, TypeVar, cast

import httpx
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.types import Message, Receive

from app.domain.policy.keys import SCOPES
from app.main import build
from tests.service import Service, Tenant
from tests.waiting import PATIENCE_SECONDS

T = TypeVar("T")
MANY = 128


class Api:
    """Requests of one tenant, unless another key is given."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="api under test")
        self._wishes: asyncio.Queue[Message] = asyncio.Queue()
        self._news: asyncio.Queue[Message] = asyncio.Queue()

    @cached_property
    def tenant(self) -> Tenant:
        """The tenant whose key is sent."""
        return self.service.tenant()

    @cached_property
    def admin(self) -> Tenant:
        """A tenant whose key may do everything."""
        return self.service.tenant(scopes=SCOPES)

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
        """Await something in the application's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=PATIENCE_SECONDS)

    async def send(self, method: str, path: str, *, key: str | None = "", **given: Any) -> httpx.Response:
        """A request with this key; an empty one stands for the tenant's, None for no key at all."""
        headers = httpx.Headers(given.pop("headers", None))
        if key is not None:
            headers.setdefault("authorization", f"Bearer {key or self.tenant.key}")
        return await self._client.request(method, path, headers=headers, **given)

    def request(self, method: str, path: str, **given: Any) -> httpx.Response:
        if given.get("key", "") == "":
            self.tenant  # noqa: B018 - made outside of the loop
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
        """Post memories, and see them stored and searchable. Returns their ids."""
        bodies = [{"text": memory} if isinstance(memory, str) else memory for memory in memories]
        answer = self.post("/v1/memories", json=bodies, key=key)
        assert answer.status_code == 202, answer.text
        if work:
            self.service.work()
        ids: list[str] = answer.json()["ids"]
        return ids

    def serve(self, method: str, path: str, receive: Receive) -> int:
        """The status of the tenant's request whose body comes from there, with nothing of a client around it."""
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
        """The paths of all routes that the application has, described or not."""
        inner = cast("Any", self._app)
        while not isinstance(inner, FastAPI):
            inner = inner._inner
        return {context.path for context in iter_route_contexts(inner.routes) if context.path is not None}

    async def _start(self) -> None:
        self._app = build()
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

    async def _stop(self) -> None:
        await self._client.aclose()
        await self._wishes.put({"type": "lifespan.shutdown"})
        await self._life


def fields(answer: httpx.Response) -> list[str]:
    """The fields that a problem names, its shape checked."""
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem.keys() == {"type", "title", "status", "detail", "errors", "request_id"}
    assert problem["status"] == answer.status_code
    assert problem["type"].startswith("urn:ebbing:problem:")
    assert problem["request_id"] == answer.headers["x-request-id"]
    return [error["field"] for error in problem["errors"]]
