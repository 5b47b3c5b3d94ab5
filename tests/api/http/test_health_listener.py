"""The health port answers probes while silent connections fill both ports."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from app.api.http import health_listener
from app.api.http.health_listener import CONNECTIONS_MAX, HealthListener
from app.embedded import free_ports
from tests.service import Service


@asynccontextmanager
async def listening() -> AsyncIterator[int]:
    [port] = free_ports(1)
    listener = HealthListener()
    await listener.start("127.0.0.1", port)
    yield port
    await listener.stop()


async def ask(port: int, request: str) -> tuple[int, dict[str, Any]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{request}\r\nHost: probe\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), json.loads(body or b"{}")


@pytest.mark.parametrize(
    ("request_line", "status", "state"),
    [
        ("GET /healthz HTTP/1.1", 200, "ok"),
        ("GET /readyz?probe=1 HTTP/1.1", 200, "ready"),
        ("GET /startz HTTP/1.1", 200, "started"),
        ("HEAD /healthz HTTP/1.1", 200, None),
        ("POST /healthz HTTP/1.1", 405, "send GET"),
        ("GET /v1/memories HTTP/1.1", 404, "only /healthz, /readyz and /startz are served here"),
        ("nonsense", 404, "only /healthz, /readyz and /startz are served here"),
    ],
)
def test_it_answers_probes_only(service: Service, request_line: str, status: int, state: str | None) -> None:
    async def run() -> tuple[int, dict[str, Any]]:
        async with listening() as port:
            return await ask(port, request_line)

    found, shown = asyncio.run(run())
    assert (found, shown.get("status")) == (status, state)


def test_readiness_is_what_the_api_says(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {"status": "not ready", "dependencies": []}
    monkeypatch.setitem(health_listener._ANSWERS, "/readyz", lambda: (503, shown))

    async def run() -> tuple[int, dict[str, Any]]:
        async with listening() as port:
            return await ask(port, "GET /readyz HTTP/1.1")

    assert asyncio.run(run()) == (503, shown)


def test_a_probe_is_answered_while_silent_connections_take_every_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_listener, "REQUEST_SECONDS", 3600)

    async def run() -> tuple[list[int], bytes]:
        async with listening() as port:
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2 * CONNECTIONS_MAX)]
            found = [(await ask(port, "GET /healthz HTTP/1.1"))[0] for _ in range(3)]
            oldest = await silent[0][0].read()
            for _, writer in silent:
                writer.close()
            return found, oldest

    assert asyncio.run(run()) == ([200] * 3, b"")


def test_a_request_that_never_ends_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_listener, "REQUEST_SECONDS", 0.01)

    async def run() -> list[bytes]:
        async with listening() as port:
            ends = []
            for sent in (b"", b"GET /healthz HTTP/1.1\r\n", b"x" * 20_000):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(sent)
                try:
                    ends.append(await reader.read())
                except ConnectionResetError:  # the server had not read everything
                    ends.append(b"")
                writer.close()
            return ends

    assert asyncio.run(run()) == [b""] * 3
