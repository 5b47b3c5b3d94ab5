"""Assemble the ASGI application from routes, dashboard and middleware."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp

from app import logs, queues, tracing
from app.api.admin import dead_letters, queue, status, tenant_deletions, tenants_and_keys, usage
from app.api.compat import memory_decay
from app.api.http import problem_responses
from app.api.http.connection_guard import ConnectionGuard
from app.api.http.health_listener import HealthListener
from app.api.http.middleware import Guard
from app.api.maintenance import (
    consolidation,
    forecast,
    jobs,
    learned_rates,
    maintenance,
    policy,
    schedule,
    self_tests,
    webhooks,
)
from app.api.memories import (
    changes,
    deletion,
    files,
    imports,
    links,
    memories,
    notes,
    promotion,
    recall,
    reviews,
    search,
    search_replays,
    supersessions,
    threads,
    uses,
)
from app.api.memories.ingest import Ingest
from app.api.privacy import audit, categories, dump, erasures, exports, holds, quarantines, request_log, subjects
from app.api.reference import openapi, swagger_ui
from app.clients.embedding.embedder import embedder
from app.clients.llm.model_clients import model_clients
from app.clients.redis import stream
from app.clients.redis.connection import connect_async
from app.clients.redis.connection_check import verify_connections
from app.clients.redis.stream import StreamWriter
from app.dashboard import application
from app.dashboard.rendering import PREFIX
from app.mcp.http_endpoint import McpEndpoint
from app.secret_settings import warn_of_exposed
from app.services.embedding import spaces
from app.services.ingest import witness
from app.services.monitoring import probes
from app.services.search import rerank
from app.services.security import master_keys
from app.services.strength import dynamics_plugins
from app.services.tenants import budget
from app.settings import Settings, settings
from app.store.core import database


def build(port: int | None = None) -> ASGIApp:
    """Build the application; its lifespan opens and closes connections, models and tracing.

    Args:
        port: The port whose connections are guarded; None if this process owns no sockets of clients.
    """
    logs.configure("api")
    dynamics_plugins.check_plugins()
    tracing.check_packages()
    redis = connect_async()
    accepted = witness.Witness()
    nudger = queues.Nudger(queues.DRAIN)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await _prepare()
        is_ending = asyncio.Event()
        writing = asyncio.create_task(_write_accepted(accepted, is_ending))
        listener = HealthListener()
        if (health_port := settings().health_port) is not None:
            await listener.start(settings().host, health_port)
        guarding = asyncio.create_task(guard.run(is_ending)) if guard is not None else None
        probes.note_start()
        yield
        probes.note_end()
        await listener.stop()
        is_ending.set()
        await writing
        if guarding is not None:
            await guarding
        await run_in_threadpool(tracing.stop)
        nudger.close()
        await redis.aclose()
        model_clients.close()
        stream.close()
        database.close()
        verify_connections(None)

    shown = settings().docs_enabled
    app = FastAPI(
        title="Ebbing",
        summary="A memory service for AI agents that forgets on purpose",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    for module in (
        # Before `memories`: otherwise a 405 for /v1/memories/delete would list the methods of /v1/memories/{memory_id}.
        deletion,
        memories,
        imports,
        promotion,
        notes,
        uses,
        search,
        recall,
        status,
        usage,
        tenants_and_keys,
        tenant_deletions,
        queue,
        jobs,
        schedule,
        dead_letters,
        maintenance,
        forecast,
        links,
        threads,
        changes,
        files,
        reviews,
        self_tests,
        learned_rates,
        webhooks,
        policy,
        search_replays,
        categories,
        erasures,
        exports,
        dump,
        request_log,
        subjects,
        holds,
        quarantines,
        audit,
        consolidation,
        supersessions,
    ):
        app.include_router(module.router)
    app.include_router(request_log.keeping)
    app.include_router(subjects.listing)
    if settings().compat_memory_decay is not None:
        app.include_router(memory_decay.router)
    app.mount(PREFIX, application.build())
    problem_responses.install(app)
    openapi.install(app)
    if shown:
        openapi.serve(app)
        app.include_router(swagger_ui.router)
    app.add_api_route("/", lambda: RedirectResponse("docs" if shown else f"{PREFIX[1:]}/"), include_in_schema=False)
    served = serve_ingest(app, StreamWriter(redis), nudger, accepted)
    guard = ConnectionGuard(served, port) if port is not None else None
    return guard or served


def serve_ingest(app: FastAPI, writer: StreamWriter, nudger: queues.Nudger, accepted: witness.Witness) -> ASGIApp:
    """Put the middleware and the endpoints of ingest, search and MCP around the routes."""
    ingest = Ingest(writer, nudger, accepted)
    app.state.door, app.state.nudger, app.state.ingest = writer, nudger, ingest
    mcp = McpEndpoint() if settings().mcp == "on" else None
    guarded = Guard(app, ingest, search.serve_search, mcp)
    if mcp is not None:
        mcp.connect(guarded)
    return guarded


async def _prepare() -> None:
    """Check Redis, the master keys and the settings, start tracing and load models."""
    witness.guard_connections()
    await run_in_threadpool(probes.check_redis)
    await run_in_threadpool(master_keys.check_at_start)
    warn_of_exposed(Settings)
    budget.log_warnings()
    tracing.start("api")
    await run_in_threadpool(embedder)  # preload, so that the first search doesn't wait
    await run_in_threadpool(rerank.check_reranker)
    await run_in_threadpool(spaces.warn_other_spaces)
    await run_in_threadpool(dynamics_plugins.announce_plugins)


async def _write_accepted(accepted: witness.Witness, is_ending: asyncio.Event) -> None:
    """Write witness rows of accepted requests about once a second, and once at shutdown; never interrupt a write."""
    while not is_ending.is_set():
        await run_in_threadpool(accepted.write)
        with suppress(TimeoutError):
            await asyncio.wait_for(is_ending.wait(), witness.EVERY_SECONDS)
    await run_in_threadpool(accepted.write)
