"""`/v1/jobs`: long work of the tenant, its progress, and a way to cancel it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Response

from app.api.http import shapes
from app.api.http.auth import Caller, needs
from app.errors import FieldError, Invalid
from app.services.jobs import jobs
from app.store.jobs.jobs import Listed

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

PAGE_MAX = 500

Maintainer = Annotated[Caller, Depends(needs("maintain"))]


@router.get("", summary="List jobs, newest first")
def page(
    caller: Maintainer,
    status: Literal["queued", "running", "done", "failed", "cancelled"] | None = None,
    kind: str | None = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50,
    cursor: str | None = None,
) -> Response:
    """Jobs without their logs, by cursor."""
    if kind is not None and "\0" in kind:
        raise Invalid(errors=[FieldError("kind", "holds a NUL character, which no kind has")])
    found = jobs.page(caller.tenant_id, status, kind, shapes.place_in_cursor(cursor), limit)
    following = shapes.cursor_at(found[-1].created_at, found[-1].job_id) if len(found) == limit else None
    return shapes.answer({"jobs": [_shown(job) for job in found], "next_cursor": following})


@router.get("/{job_id}", summary="One job")
def get(caller: Maintainer, job_id: str) -> Response:
    """A job with its log: the last 200 lines, oldest first."""
    return shapes.answer(_shown(jobs.get(caller.tenant_id, shapes.id_named(job_id, "job"))))


@router.post("/{job_id}/cancel", summary="Cancel a job", status_code=202)
def cancel(caller: Maintainer, job_id: str) -> Response:
    """It ends between two steps; what it has done stays."""
    return shapes.answer(_shown(jobs.cancel(caller.tenant_id, shapes.id_named(job_id, "job"))), 202)


def _shown(job: Listed) -> dict[str, Any]:
    shown = {"id": job.job_id, **asdict(job)}
    del shown["job_id"]
    if job.log is None:
        del shown["log"]
    return shown
