"""Build the dashboard application: routes, static files and HTML error pages."""

from __future__ import annotations

import asyncio
from typing import Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

from app.api.http.problem_responses import as_ours
from app.dashboard import login, provider_login, rendering
from app.dashboard.access import LoggedOut, find_viewer
from app.dashboard.pages import (
    audit,
    consolidation,
    dead_letters,
    erasures,
    holds,
    keys,
    memory,
    overview,
    privacy,
    runbook,
    search,
    self_tests,
    tenants,
    tiers,
    usage,
    webhooks,
)
from app.dashboard.rendering import PREFIX
from app.errors import EbbingError

_TYPES = {"js": "text/javascript", "css": "text/css", "txt": "text/plain", "svg": "image/svg+xml"}

_HTTP: Final = {
    404: ("the page does not exist", "Page not found"),
    405: ("this address only accepts submitted forms and has no page of its own", "No page at this address"),
}
"""Detail and title of errors of the router, by status."""

PAGES: Final = (
    login,
    provider_login,
    overview,
    tiers,
    consolidation,
    privacy,
    erasures,
    holds,
    dead_letters,
    webhooks,
    usage,
    self_tests,
    search,
    memory,
    audit,
    tenants,
    keys,
    runbook,
)


def build() -> FastAPI:
    """Build the application that is mounted at `PREFIX`."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.state.streams = overview.Streams()
    app.state.provider_calls = asyncio.Semaphore(provider_login.CALLS_MAX)
    for module in PAGES:
        app.include_router(module.router)

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        content = rendering.asset_content(name)
        if content is None:
            raise HTTPException(404)
        kept = {"cache-control": "public, max-age=31536000, immutable"}
        return Response(content, media_type=_TYPES[name.rpartition(".")[2]], headers=kept)

    async def explain(request: Request, found: EbbingError) -> Response:
        return rendering.page(request, await find_viewer(request), "error", found.status, error=found)

    async def ours(request: Request, error: Exception) -> Response:
        return await explain(request, as_ours(error))

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - guaranteed by the handler's registration
        detail, title = _HTTP.get(error.status_code, (str(error.detail), "Request failed"))
        found = EbbingError(detail)
        found.status, found.title = error.status_code, title
        response = await explain(request, found)
        response.headers.update(error.headers or {})
        return response

    async def parameters(request: Request, _: Exception) -> Response:
        found = EbbingError("the address contains an invalid parameter")
        found.status, found.title = 422, "Invalid request"
        return await explain(request, found)

    async def logged_out(request: Request, _: Exception) -> Response:
        if request.headers.get("hx-request"):  # partial request by htmx: redirect the whole page
            return Response(status_code=204, headers={"hx-redirect": f"{PREFIX}/log-in"})
        return RedirectResponse(f"{PREFIX}/log-in", 303)

    app.add_exception_handler(LoggedOut, logged_out)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, parameters)
    app.add_exception_handler(EbbingError, ours)
    app.add_exception_handler(Exception, ours)
    return app
