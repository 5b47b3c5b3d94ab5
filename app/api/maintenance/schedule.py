"""`/v1/schedule`: scheduled maintenance of the tenant, its runs and their results."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from app.api.http import responses
from app.api.http.auth import Maintainer
from app.api.http.cursors import PART, Paged
from app.api.http.request_body import json_body
from app.api.maintenance.maintenance import Due
from app.services.jobs import schedule
from app.services.jobs.schedule import ScheduleView
from app.services.night import night_preview
from app.services.night.night_preview import NightCursor
from app.store.jobs.schedules import ScheduleRun

router = APIRouter(prefix="/v1/schedule", tags=["schedule"])


@router.get("", summary="List schedules")
def of_tenant(caller: Maintainer) -> Response:
    """Return schedules with times, delay and last run. The policy fields `night` and `time_zone` set the times."""
    return responses.answer({"schedule": [_render(found) for found in schedule.list_schedules(caller.tenant_id)]})


@router.post(
    "/{name}/run",
    summary="Run a schedule now",
    status_code=202,
    responses={200: {"description": "With `dry_run`: a page of the changes of each step, with counts"}},
)
def run(
    caller: Maintainer,
    name: str,
    wanted: Annotated[Due, Depends(json_body(Due, is_optional=True))],
) -> Response:
    """Start an unscheduled run, even if the schedule is paused. If a run is in progress, it is returned instead.

    The body is optional. All pages of a dry run are evaluated at one time: send the returned `as_of` with each cursor.
    """
    if not wanted.dry_run:
        return responses.answer(_run(schedule.run(caller.tenant_id, name, wanted.as_of, caller.key_id)), 202)
    begin = (place := PART.decode(wanted.cursor)) and NightCursor(*place)
    schedule.require_schedule(caller.tenant_id, name)
    found = night_preview.preview_night(caller.tenant_id, wanted.as_of, begin, wanted.limit)
    page = {
        "as_of": found.as_of,
        "steps": found.steps,
        "changes": [{"step": step, **responses.change(move)} for step, move in found.changes],
        "next_cursor": PART.encode(found.following),
    }
    return responses.answer(page)


@router.post("/{name}/pause", summary="Pause a schedule")
def pause(caller: Maintainer, name: str) -> Response:
    """Pause scheduled runs until they are resumed; a run in progress continues."""
    return responses.answer(_render(schedule.set_paused(caller.tenant_id, name, paused=True)))


@router.post("/{name}/resume", summary="Resume a schedule")
def resume(caller: Maintainer, name: str) -> Response:
    """Resume scheduled runs. If runs were missed recently, one run starts now."""
    return responses.answer(_render(schedule.set_paused(caller.tenant_id, name, paused=False)))


@router.get("/{name}/runs", summary="List runs of a schedule, newest first")
def runs(caller: Maintainer, name: str, wanted: Paged) -> Response:
    """Return a page of runs. The log of a run is the log of its job."""
    return responses.page("runs", schedule.list_runs(caller.tenant_id, name, *wanted), _run)


def _render(found: ScheduleView) -> dict[str, Any]:
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


def _run(run: ScheduleRun) -> dict[str, Any]:
    return responses.render(run, run_id="id", task="name")
