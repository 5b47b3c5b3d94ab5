"""Create, send, read and cancel jobs: a tenant's long work, done in resumable steps by `runner`.

A message only prompts a worker to claim the job's row. A lost message or worker therefore delays a job by a lease, and
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
from app.store.jobs import jobs
from app.store.jobs.jobs import JobView

# Concurrent jobs per lane over all tenants. A lane has one process: with two jobs in its queue, each slice would wait
# behind another, and beat's ticks would expire unread behind both.
AT_ONCE: Final = 1
_TASKS: Final = (queues.RIGHTS_JOB, queues.JOB)

log = structlog.get_logger(__name__)


def task_name(kind: str) -> str:
    """Return the Celery task that carries jobs of a kind; the lane follows from it."""
    return queues.RIGHTS_JOB if kind in RIGHTS_KINDS else queues.JOB


def create(
    tenant_id: UUID, kind: str, parameters: dict[str, Any], *, lone: bool = True, actor: str | None = None
) -> UUID:
    """Create a job, send it to a worker when its turn comes, and return its id.

    Args:
        kind: One of `domain.jobs.KINDS`.
        parameters: The steps' parameters as JSON; never content.
        lone: Allow only one unfinished job of this kind per tenant, and return the id of an existing one.
        actor: Id of the requesting key, for the audit log; None for the service's own jobs.
    """
    if kind not in KINDS:
        raise KeyError(kind)
    job_id = uuid4()
    with database.tenant(tenant_id) as tx:
        # The unfinished job may end between the two statements.
        while not jobs.add(tx, job_id, tenant_id, kind, parameters, lone=lone):
            found = jobs.find_lone(tx, tenant_id, kind)
            if found is not None:
                return found
        if actor is not None:
            audit.append(tx, tenant_id, "job_started", actor, details={"job": str(job_id), "kind": kind})
    send_quietly()
    return job_id


def evaluation_parameters(as_of: datetime | None) -> dict[str, Any]:
    """Return the parameters of a maintenance job that evaluates its rules as of a moment, now if None.

    Raises:
        Invalid: The moment is in the future: only a dry run can look ahead.
    """
    if as_of is None:
        return {}
    with database.shared() as tx:
        if as_of > database.now(tx):
            raise Invalid(errors=[FieldError("as_of", "is yet to come: only a dry_run can look ahead")])
    return {"as_of": as_of.isoformat()}


def send_jobs() -> int:
    """Send the next jobs, and those whose message or worker was lost; return the number sent.

    Raises:
        kombu.exceptions.OperationalError: The broker can't be reached; the jobs are sent again after a lease.
    """
    rights = sorted(RIGHTS_KINDS)
    with database.shared() as tx:
        due = {name: jobs.claim_for_sending(tx, AT_ONCE, rights, among=name == queues.RIGHTS_JOB) for name in _TASKS}
    for name, job_ids in due.items():
        for job_id in job_ids:
            queues.enqueue(name, job_id, expires_seconds=None)
    return sum(map(len, due.values()))


def send_quietly() -> None:
    """Send the next jobs, but only log a failure: the next tick sends them too."""
    try:
        send_jobs()
    except Exception as error:  # noqa: BLE001 - the rows are still queued
        log.warning("job_not_sent", error=type(error).__name__)


def get(tenant_id: UUID, job_id: UUID) -> JobView:
    """Return a job with its log.

    Raises:
        NotFound: The tenant has no such job.
    """
    with database.shared() as tx:
        return require_found(jobs.get(tx, tenant_id, job_id), "job")


list_jobs = database.in_shared(jobs.list_jobs)
"""Return jobs, newest first, that are older than the given time of creation and id."""


def cancel(tenant_id: UUID, job_id: UUID) -> JobView:
    """Request a job's cancellation, which takes effect after its current step or when it is next claimed.

    Raises:
        NotFound: The tenant has no such job.
        Conflict: The job has ended.
    """
    with database.shared() as tx:
        wanted = jobs.request_cancel(tx, tenant_id, job_id)
    found = get(tenant_id, job_id)
    if not wanted:
        raise Conflict(f"this job has already ended: it is {found.status}")
    send_quietly()
    return found
