"""Overview page: findings, queues and the nightly run, updated by server-sent events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from app import shutdown
from app.api.http.cursors import PART
from app.api.http.page_headers import HEADERS
from app.dashboard import rendering, sessions
from app.dashboard.access import AnyViewer, Maintaining, Planning, Viewer, find_caller
from app.dashboard.rendering import redirect_back
from app.errors import EbbingError, Unavailable
from app.services.jobs import schedule
from app.services.monitoring import stats, status
from app.services.night import night_preview
from app.services.night.night_preview import NightCursor
from app.services.night.steps import STEPS
from app.services.security import operator_log
from app.services.transient_errors import is_transient
from app.store.core.paging import Page

EVERY_SECONDS: Final = 2.0
HEARTBEAT_SECONDS: Final = 15.0
MOMENT_MAX: Final = 32_503_680_000.0  # the year 3000
STREAM_SECONDS: Final = 600.0
"""Maximum duration of a stream; the browser then opens a new one."""
CHANGES: Final = 100
"""Maximum changes on a page of the preview."""
STREAMS_MAX: Final = 100
"""Maximum streams per process; further pages get a 503 and poll instead."""

router = APIRouter()


@dataclass
class Streams:
    """Number of open streams."""

    count: int = 0


@router.get("/")
async def show_overview(viewer: AnyViewer, request: Request) -> Response:
    """Show the overview."""
    return await run_in_threadpool(_render_overview, viewer, request)


def _render_overview(viewer: Viewer, request: Request) -> Response:
    found = _read_live_part(viewer)
    night: list[schedule.ScheduleView] | None
    try:
        night = schedule.list_schedules(viewer.tenant_id)
        taken = stats.count_usage(viewer.tenant_id)
        acts = operator_log.list_actions(viewer.tenant_id, limit=5)
    except Exception as error:
        if not is_transient(error):
            raise
        night, taken, acts = None, None, Page()
    return rendering.page(request, viewer, "now", **found, night=night, taken=taken, acts=acts, steps=list(STEPS))


@router.get("/now")
def show_live_part(viewer: AnyViewer, request: Request) -> Response:
    """Render the live part of the page, for polling browsers."""
    return rendering.page(request, viewer, "live", **_read_live_part(viewer))


def _read_live_part(viewer: Viewer) -> dict[str, Any]:
    return {"health": status.now(viewer.tenant_id, every=viewer.is_admin)}


@router.get("/events")
async def stream_events(viewer: AnyViewer, request: Request) -> Response:
    """Stream the live part as server-sent events named `now`, whenever it changes."""
    streams: Streams = request.app.state.streams
    if streams.count >= STREAMS_MAX:
        raise Unavailable("too many open streams: this page polls instead", retry_after_seconds=30)
    return StreamingResponse(
        _events(viewer, streams),
        media_type="text/event-stream",
        headers={**HEADERS, "x-accel-buffering": "no"},
    )


async def _events(viewer: Viewer, streams: Streams) -> AsyncIterator[bytes]:
    streams.count += 1
    try:
        began, said, said_at = time.monotonic(), "", 0.0
        while time.monotonic() - began < STREAM_SECONDS and not shutdown.is_near():
            try:
                await find_caller(viewer.session)
            except EbbingError:
                return
            if await run_in_threadpool(sessions.has_ended, viewer.session):
                return
            context = await run_in_threadpool(_read_live_part, viewer)
            html = rendering.render("live", viewer, **context)
            if html != said:
                yield _event("now", html)
                said, said_at = html, time.monotonic()
            elif time.monotonic() - said_at >= HEARTBEAT_SECONDS:
                yield b": still here\n\n"
                said_at = time.monotonic()
            await asyncio.sleep(EVERY_SECONDS)
    finally:
        streams.count -= 1


def _event(name: str, html: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in html.splitlines())
    return f"event: {name}\n{lines}\n".encode()


@router.get("/schedule/{name}/preview")
def preview_run(
    viewer: Planning,
    request: Request,
    name: str,
    cursor: str | None = None,
    as_of: Annotated[float | None, Query(ge=0, le=MOMENT_MAX)] = None,
) -> Response:
    """Show a page of the changes that a run would make now, as `ebbing schedule run NAME --dry-run` lists them.

    Args:
        cursor: Start of a following page.
        as_of: With a cursor: time as of which the first page was computed, in seconds since 1970.
    """
    schedule.require_schedule(viewer.tenant_id, name)
    begin = (place := PART.decode(cursor)) and NightCursor(*place)
    moment = None if as_of is None else datetime.fromtimestamp(as_of, UTC)
    found = night_preview.preview_night(viewer.tenant_id, moment, begin, CHANGES)
    following = PART.encode(found.following)
    return rendering.page(request, viewer, "night_preview", name=name, found=found, following=following, begin=begin)


@router.post("/schedule/{name}/run")
def start_run(acting: Maintaining, name: str) -> Response:
    """Start a manual run."""
    acting.record_on("run", name, schedule.require_schedule)
    schedule.run(acting.tenant_id, name, None, acting.key_id)
    return redirect_back("", "run")


@router.post("/schedule/{name}/pause")
def pause_entry(acting: Maintaining, name: str) -> Response:
    """Pause scheduled runs."""
    acting.record_on("pause", name, schedule.require_schedule)
    schedule.set_paused(acting.tenant_id, name, paused=True)
    return redirect_back("", "paused")


@router.post("/schedule/{name}/resume")
def resume_entry(acting: Maintaining, name: str) -> Response:
    """Resume scheduled runs."""
    acting.record_on("resume", name, schedule.require_schedule)
    schedule.set_paused(acting.tenant_id, name, paused=False)
    return redirect_back("", "resumed")
