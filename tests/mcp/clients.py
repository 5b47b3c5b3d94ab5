"""Clients of the Model Context Protocol in both forms: over HTTP without a socket, and in memory without HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, TypeVar, cast

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from app.mcp import server
from app.mcp.backend import Reply, describe_problem
from tests.api.caller import Api
from tests.waiting import PATIENCE_SECONDS

T = TypeVar("T")
Mode = Literal["auto", "legacy"]
MODES: Final[tuple[Mode, Mode]] = ("auto", "legacy")
VERSIONS: Final = {"auto": "2026-07-28", "legacy": "2025-11-25"}
"""Version of the protocol by mode: without and with a handshake."""
URL: Final = "http://localhost/mcp"


@asynccontextmanager
async def connected(api: Api, key: str, mode: Mode) -> AsyncIterator[Client]:
    """A client with this key."""
    transport = httpx2.ASGITransport(cast("Any", api._app))
    headers = {"authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(transport=transport, headers=headers, timeout=PATIENCE_SECONDS) as http,
        Client(streamable_http_client(URL, http_client=http), mode=mode) as client,
    ):
        yield client


class KeyBackend:
    """Access of a server in memory to the application, with a key."""

    scopes = None

    def __init__(self, api: Api, key: str) -> None:
        self._api, self._key = api, key
        self.owner = key

    async def call(
        self, method: str, path: str, *, params: Any = None, body: object = None, headers: Any = None
    ) -> Reply:
        answer = await self._api.send(method, path, key=self._key, params=params, json=body, headers=headers)
        found = answer.json() if answer.content else {}
        if answer.status_code >= 400:
            raise describe_problem(answer.status_code, found)
        return Reply(answer.status_code, found)


def talk_in_memory(
    api: Api, tool_set: str, work: Callable[[Client], Awaitable[T]], *, key: str = "", mode: Mode = "auto"
) -> T:
    """Run a conversation with a server of these tools in the same event loop, without a transport."""
    backend = KeyBackend(api, key or api.tenant.key)

    async def talked() -> T:
        async with Client(server.build(tool_set, lambda _: backend), mode=mode, raise_exceptions=True) as client:
            return await work(client)

    return api.run(talked())


def talk(api: Api, work: Callable[[Client], Awaitable[T]], *, key: str = "", mode: Mode = "auto") -> T:
    """Run a conversation of a client and return its result."""
    sent = key or api.tenant.key

    async def talked() -> T:
        async with connected(api, sent, mode) as client:
            return await work(client)

    return api.run(talked())


def call(api: Api, tool: str, *, key: str = "", mode: Mode = "auto", **arguments: Any) -> CallToolResult:
    """Call a tool and return its result."""
    return talk(api, lambda client: client.call_tool(tool, arguments), key=key, mode=mode)


def done(api: Api, tool: str, *, key: str = "", mode: Mode = "auto", **arguments: Any) -> dict[str, Any]:
    """Call a tool that must succeed, and return its structured result."""
    result = call(api, tool, key=key, mode=mode, **arguments)
    assert not result.is_error, text_of(result)
    assert result.structured_content is not None
    return cast("dict[str, Any]", result.structured_content)


def refused(api: Api, tool: str, *, key: str = "", mode: Mode = "auto", **arguments: Any) -> str:
    """Call a tool that must fail, and return its message."""
    result = call(api, tool, key=key, mode=mode, **arguments)
    assert result.is_error, text_of(result)
    assert result.structured_content is None
    return text_of(result)


def text_of(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text
