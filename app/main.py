"""Assemble the ASGI application from routes, dashboard and middleware."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp

from app import logs, queues, tracing
from app.api.admin import admin, dead_letters, queue, status, usage
from app.api.http import openapi, problems
from app.api.http.middleware import Guard
from app.api.maintenance import consolidation, forecast, jobs, maintenance, policy, schedule, self_tests
from app.api.memories import links, memories, recall, reviews, search, search_replays, supersessions, touches
from app.api.memories.ingest import Ingest
from app.api.privacy import audit, categories, erasures, exports, holds, privacy_requests, subjects
from app.clients.embedding.embedder import embedder
from app.clients.llm.model_clients import model_clients
from app.clients.redis import stream
from app.clients.redis.identity import verify_connections
from app.clients.redis.redis import connect_async
from app.clients.redis.stream import Door
from app.dashboard import app as dashboard
from app.dashboard.rendering import PREFIX
from app.services.embedding import spaces
from app.services.ingest import witness
from app.services.monitoring import probes
from app.services.search import rerank
from app.services.strength import plugins
from app.services.tenants import budget
from app.settings import settings
from app.store.core import database


def build() -> ASGIApp:
    """Build the application; its lifespan opens and closes connections, models and tracing."""
    logs.configure("api")
    plugins.check()
    tracing.check()
    redis = connect_async()
    accepted = witness.Witness()
    nudger = queues.Nudger(queues.DRAIN)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        witness.guard_connections()
        await run_in_threadpool(probes.check_redis)
        budget.check()
        tracing.start("api")
        await run_in_threadpool(embedder)  # preload, so that the first search doesn't wait
        await run_in_threadpool(rerank.check)
        await run_in_threadpool(spaces.announce)
        await run_in_threadpool(plugins.announce)
        writing = asyncio.create_task(_write_accepted(accepted))
        yield
        writing.cancel()
        await run_in_threadpool(accepted.write)
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
        docs_url="/docs" if shown else None,
        redoc_url=None,
        openapi_url="/openapi.json" if shown else None,
    )
    for module in (
        memories,
        touches,
        search,
        recall,
        status,
        usage,
        admin,
        queue,
        jobs,
        schedule,
        dead_letters,
        maintenance,
        forecast,
        links,
        reviews,
        self_tests,
        policy,
        search_replays,
        categories,
        erasures,
        exports,
        privacy_requests,
        subjects,
        holds,
        audit,
        consolidation,
        supersessions,
    ):
        app.include_router(module.router)
    app.include_router(privacy_requests.keeping)
    app.mount(PREFIX, dashboard.build())
    app.state.door, app.state.nudger = Door(redis), nudger
    problems.install(app)
    openapi.install(app)
    return Guard(app, Ingest(app.state.door, nudger, accepted))


async def _write_accepted(accepted: witness.Witness) -> None:
    while True:
        await asyncio.sleep(witness.EVERY_SECONDS)
        await run_in_threadpool(accepted.write)
