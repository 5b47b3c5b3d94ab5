"""`create_app` with the parameters of memory-decay: an application that forwards every request to a running service."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from fastapi import FastAPI, Request, Response

__all__ = ["create_app"]

TIMEOUT_SECONDS = 120


def create_app(**_: object) -> FastAPI:
    """Return the application; it deletes all memories when it starts, as each test expects an empty store."""
    headers = {"authorization": f"Bearer {os.environ['COMPAT_KEY']}"}
    base_url = os.environ["COMPAT_URL"]

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with httpx.AsyncClient(base_url=base_url, headers=headers, timeout=TIMEOUT_SECONDS) as client:
            app.state.client = client
            (await client.post("/reset")).raise_for_status()
            yield

    app = FastAPI(lifespan=lifespan, openapi_url=None)

    @app.api_route("/{path:path}", methods=["DELETE", "GET", "POST", "PUT"])
    async def forward(request: Request) -> Response:
        answer = await app.state.client.request(
            request.method,
            request.url.path,
            params=str(request.url.query),
            content=await request.body(),
            headers={"content-type": "application/json"},
        )
        return Response(answer.content, answer.status_code, media_type=answer.headers.get("content-type"))

    return app
