"""Create, send, read and cancel jobs: a tenant's long-running work, which `runner` executes in resumable steps.

A Celery message only causes a worker to claim the job's row. So a lost message or worker delays a job by one lease, and
a duplicate message has no effect.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid4

import structlog

from app import queues
from app.domain.jobs import KINDS, RIGHTS_KINDS
from app.errors import Conflict, FieldError, Invalid, require_found
from app.services.security import audit
from app.store.core import database
from app.store.jobs import jobs, overlong_leases
from app.store.jobs.jobs import JobView
from app.store.tenants import tenants

# Maximum number of jobs per lane that are sent or running, over all tenants. A lane has one process: with two jobs, the
# slices of each would wait for the other's, and beat's ticks would expire unread behind both.
AT_ONCE: Final = 1
# A slice of an export takes seconds, and a large tenant's export has many slices. Without yielding, an erasure, which
# is short, would wait for a slice of each waiting export before each slice of its own.
YIELDING: Final = "export"
# Constant erasures would starve exports: the one that has waited longest runs after this many turns of other jobs.
PASSED_OVER_MAX: Final = 10
_TASKS: Final = (queues.RIGHTS_JOB, queues.JOB)

log = structlog.get_logger(__name__)


def task_name(kind: str) -> str:
    """Return the name of the Celery task that runs jobs of a kind; the task determines the lane."""
    return queues.RIGHTS_JOB if kind in RIGHTS_KINDS else queues.JOB


def create(
    tenant_id: UUID, kind: str, parameters: dict[str, Any], *, lone: bool = True, actor: str | None = None
) -> UUID:
    """Create a job, send the jobs that are next, and return the job's id.

    Args:
        kind: One of `domain.jobs.KINDS`.
        parameters: The steps' parameters as JSON, without any memory content.
        lone: Allow only one unfinished job of this kind per tenant; if there is one already, return its id.
        actor: Id of the requesting key, for the audit log; None for the service's own jobs.
    """
    if kind not in KINDS:
        raise KeyError(kind)
    job_id = uuid4()
    with database.tenant(tenant_id) as tx:
        # Repeat if an unfinished job prevents the insertion but ends before it is read.
        while not jobs.add(tx, job_id, tenant_id, kind, parameters, lone=lone):
            existing = jobs.find_lone(tx, tenant_id, kind)
            if existing is not None:
                return existing
        if actor is not None:
            audit.append(tx, tenant_id, "job_started", actor, details={"job": str(job_id), "kind": kind})
    send_quietly()
    return job_id


def evaluation_parameters(as_of: datetime | None) -> dict[str, Any]:
    """Return the parameters of a maintenance job that evaluates its rules as of a time, or now if None.

    Raises:
        Invalid: The time is in the future, which only dry runs allow.
    """
    if as_of is None:
        return {}
    with database.shared() as tx:
        if as_of > database.now(tx):
            raise Invalid(
                errors=[FieldError("as_of", "is in the future: only a dry run (`dry_run`) accepts a future time")]
            )
    return {"as_of": as_of.isoformat()}


def send_jobs() -> int:
    """Send the next jobs, and jobs whose message or worker was lost; return the number of sent jobs.

    Raises:
        kombu.exceptions.OperationalError: The broker can't be reached; the jobs are sent again after a lease.
    """
    rights = sorted(RIGHTS_KINDS)
    with database.shared() as tx:
        due = {
            name: jobs.claim_for_sending(
                tx,
                AT_ONCE,
                rights,
                among=name == queues.RIGHTS_JOB,
                yielding=YIELDING,
                passed_over_max=PASSED_OVER_MAX,
            )
            for name in _TASKS
        }
    for name, job_ids in due.items():
        for job_id in job_ids:
            queues.enqueue(name, job_id, expires_seconds=None)
    return sum(map(len, due.values()))


def end_overlong_leases_and_send() -> int:
    """End overlong leases, continue deletions of tenants whose job has failed, then send jobs as `send_jobs` does.

    If the database's clock is set back, leases become overlong. Nights continue other erasures, but a tenant that is
    being deleted has no nights.
    """
    with database.shared() as tx:
        ended = overlong_leases.end_overlong(tx)
        for tenant_id, deletion_id in tenants.list_stalled_deletions(tx):
            log.warning("tenant_deletion_continued", tenant=str(tenant_id), deletion=str(deletion_id))
            jobs.add(tx, uuid4(), tenant_id, "erase", {"erasure_id": str(deletion_id)}, lone=False)
    if ended:
        log.warning("leases_overlong", leases=ended)
    return send_jobs()


def send_quietly() -> None:
    """Send the next jobs; if this fails, log a warning, because the next tick sends the jobs again."""
    try:
        send_jobs()
    except Exception as error:  # noqa: BLE001 - the job rows remain queued
        log.warning("job_not_sent", error=type(error).__name__)


def get(tenant_id: UUID, job_id: UUID) -> JobView:
    """Return a job with its log.

    Raises:
        NotFound: The tenant has no such job.
    """
    with database.shared() as tx:
        return require_found(jobs.get(tx, tenant_id, job_id), "job")


list_jobs = database.in_shared(jobs.list_jobs)
"""Return a page of jobs, newest first, starting after the given creation time and id."""


def cancel(tenant_id: UUID, job_id: UUID) -> JobView:
    """Request the cancellation of a job; it takes effect after the current step or at the next claim.

    Raises:
        NotFound: The tenant has no such job.
        Conflict: The job has ended.
    """
    with database.shared() as tx:
        was_requested = jobs.request_cancel(tx, tenant_id, job_id)
    job = get(tenant_id, job_id)
    if not was_requested:
        raise Conflict(f"this job has already ended: it is {job.status}")
    send_quietly()
    return job
