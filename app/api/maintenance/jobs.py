"""`/v1/jobs`: list, inspect and cancel background jobs."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Response

from app.api.http import responses
from app.api.http.auth import Maintainer
from app.api.http.cursors import Paged
from app.api.http.path_ids import JobId
from app.errors import FieldError, Invalid
from app.services.jobs import queue
from app.store.jobs.jobs import JobView

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@router.get("", summary="List jobs, newest first")
def page(
    caller: Maintainer,
    wanted: Paged,
    status: Literal["queued", "running", "done", "failed", "cancelled"] | None = None,
    kind: str | None = None,
) -> Response:
    """Return a page of jobs without their logs."""
    if kind is not None and "\0" in kind:
        raise Invalid(errors=[FieldError("kind", "contains a NUL character, which no kind has")])
    return responses.page("jobs", queue.list_jobs(caller.tenant_id, status, kind, *wanted), _render)


@router.get("/{job_id}", summary="Get a job")
def get(caller: Maintainer, job_id: JobId) -> Response:
    """Return a job with the last 200 lines of its log, oldest first."""
    return responses.answer(_render(queue.get(caller.tenant_id, job_id)))


@router.post("/{job_id}/cancel", summary="Cancel a job", status_code=202)
def cancel(caller: Maintainer, job_id: JobId) -> Response:
    """Cancel a job: it stops after its current step; completed work is not reverted."""
    return responses.answer(_render(queue.cancel(caller.tenant_id, job_id)), 202)


def _render(job: JobView) -> dict[str, Any]:
    shown = responses.render(job, job_id="id")
    if job.log is None:
        del shown["log"]
    return shown
