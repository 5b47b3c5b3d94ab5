"""`/v1/schedule`: scheduled maintenance of the tenant, its runs and their results."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response

from app.api.http import shapes
from app.api.http.auth import Caller, needs
from app.api.http.body import body_of, decode
from app.api.maintenance.maintenance import Due
from app.services.jobs import schedule
from app.services.jobs.schedule import Shown
from app.services.night import night_preview
from app.services.night.night_preview import Place
from app.store.jobs.schedules import Run

router = APIRouter(prefix="/v1/schedule", tags=["schedule"])

PAGE_MAX = 500

Maintainer = Annotated[Caller, Depends(needs("maintain"))]


@router.get("", summary="List schedules")
def of_tenant(caller: Maintainer) -> Response:
    """Return schedules with times, delay and last run. The policy fields `night` and `time_zone` set the times."""
    return shapes.answer({"schedule": [_shown(found) for found in schedule.list_schedules(caller.tenant_id)]})


@router.post(
    "/{name}/run",
    summary="Run a schedule now",
    status_code=202,
    responses={200: {"description": "With `dry_run`: a page of the changes of each step, with counts"}},
)
def run(caller: Maintainer, name: str, body: Annotated[bytes, Depends(body_of)]) -> Response:
    """Start an unscheduled run, even if the schedule is paused. If a run is in progress, it is returned instead.

    The body is optional. All pages of a dry run are evaluated at one time: send the returned `as_of` with each cursor.
    """
    wanted = decode(body, Due) if body else Due()
    if not wanted.dry_run:
        return shapes.answer(_run(schedule.run(caller.tenant_id, name, wanted.as_of, caller.key_id)), 202)
    begin = None if wanted.cursor is None else Place(*shapes.part_in_cursor(wanted.cursor))
    schedule.require(caller.tenant_id, name)
    found = night_preview.preview(caller.tenant_id, wanted.as_of, begin, wanted.limit)
    page = {
        "as_of": found.as_of,
        "steps": found.steps,
        "changes": [{"step": step, **shapes.change(move)} for step, move in found.changes],
        "next_cursor": None if found.following is None else shapes.cursor_in(*found.following),
    }
    return shapes.answer(page)


@router.post("/{name}/pause", summary="Pause a schedule")
def pause(caller: Maintainer, name: str) -> Response:
    """Pause scheduled runs until they are resumed; a run in progress continues."""
    return shapes.answer(_shown(schedule.pause(caller.tenant_id, name, paused=True)))


@router.post("/{name}/resume", summary="Resume a schedule")
def resume(caller: Maintainer, name: str) -> Response:
    """Resume scheduled runs. A recently missed run is made up once."""
    return shapes.answer(_shown(schedule.pause(caller.tenant_id, name, paused=False)))


@router.get("/{name}/runs", summary="List runs of a schedule, newest first")
def runs(
    caller: Maintainer, name: str, limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50, cursor: str | None = None
) -> Response:
    """Return a page of runs. The log of a run is the log of its job."""
    found = schedule.runs(caller.tenant_id, name, shapes.place_in_cursor(cursor), limit)
    following = shapes.cursor_at(found[-1].scheduled_for, found[-1].run_id) if len(found) == limit else None
    return shapes.answer({"runs": [_run(one) for one in found], "next_cursor": following})


def _shown(found: Shown) -> dict[str, Any]:
    held, policy = found.schedule, found.policy
    return {
        "name": held.task,
        "paused": held.paused,
        "next_run_at": held.next_run_at,
        "late_seconds": found.late_seconds,
        "time_zone": policy.time_zone,
        **asdict(policy.night),
        "last_run": _run(found.last_run) if found.last_run else None,
    }


def _run(run: Run) -> dict[str, Any]:
    shown = {"id": run.run_id, "name": run.task, **asdict(run)}
    del shown["run_id"], shown["task"]
    return shown
