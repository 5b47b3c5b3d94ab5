"""Create, list, cancel and run jobs: a tenant's long-running work in resumable steps, with progress and a log.

A worker runs a job for one slice, then yields to the job that has waited longest. Messages are only nudges: the rows
determine which job is next, so a lost message or worker costs one lease, and a duplicate message costs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID, uuid4

import structlog

from app import failpoints, metrics, queues
from app.domain.jobs import Job, Step
from app.errors import Conflict, EbbingError, NotFound
from app.services.consolidation import approving, consolidate, rederiving
from app.services.embedding import graphs, reembed
from app.services.erasure import erasing, erasures
from app.services.evaluation import self_tests
from app.services.jobs import precedence
from app.services.night import night
from app.services.passing import is_passing
from app.services.privacy import exporting, exports, holds
from app.services.security import audit
from app.services.strength import rebase
from app.services.tiers import archive, cold, cold_restore, compaction, expiry, removals, sweep
from app.settings import settings
from app.store.core import database
from app.store.jobs import jobs as rows
from app.store.jobs.jobs import Held, Listed

LEASE_SECONDS: Final = 60
RETRY_SECONDS: Final = 10
GIVE_WAY_SECONDS: Final = 15
# Per lane, over all tenants. A lane has one process: a second job in flight would always wait behind the first, and
# beat's ticks would expire unread behind both.
AT_ONCE: Final = 1
KILLED: Final = "its worker died each time"
UNKNOWN: Final = "unknown kind"

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Kind:
    """The implementation of a kind of job.

    Attributes:
        step: Runs a few seconds of the work. It opens its own transactions, and must be idempotent: it may run again
            from the same state after a crash.
        cancelled: Cleans up after a cancellation; must be idempotent too.
        task: The Celery task that runs it, which determines the lane: jobs requested under data subjects' rights don't
            wait behind nightly maintenance.
    """

    step: Callable[[Job], Step]
    cancelled: Callable[[Job], None] | None = None
    task: str = queues.JOB


_TASKS: Final = (queues.RIGHTS_JOB, queues.JOB)

KINDS: dict[str, Kind] = {
    reembed.KIND: Kind(reembed.step, reembed.cancelled),
    rebase.KIND: Kind(rebase.step),
    sweep.KIND: Kind(sweep.step),
    archive.KIND: Kind(archive.step),
    graphs.KIND: Kind(graphs.step),
    cold.KIND: Kind(cold.step),
    cold_restore.KIND: Kind(cold_restore.step, task=queues.RIGHTS_JOB),
    compaction.KIND: Kind(compaction.step),
    erasures.HIDE: Kind(erasures.step, task=queues.RIGHTS_JOB),
    erasures.ERASE: Kind(erasing.step, task=queues.RIGHTS_JOB),
    expiry.KIND: Kind(expiry.step),
    exports.KIND: Kind(exporting.step, task=queues.RIGHTS_JOB),
    holds.KIND: Kind(holds.step),
    removals.KIND: Kind(removals.step),
    self_tests.KIND: Kind(self_tests.step),
    night.KIND: Kind(night.step),
    consolidate.KIND: Kind(consolidate.step),
    approving.KIND: Kind(approving.step),
    rederiving.KIND: Kind(rederiving.step),
}


def create(
    tenant_id: UUID, kind: str, parameters: dict[str, Any], *, lone: bool = True, actor: str | None = None
) -> UUID:
    """Create a job and send it to a worker as soon as it is its turn; return its id.

    Args:
        kind: One of `KINDS`.
        parameters: Parameters of its steps, as JSON; never memory content.
        lone: Whether the tenant may have only one unfinished job of this kind; if there is one, its id is returned.
        actor: Id of the API key that requested the job, for the audit log; None if no caller did.
    """
    if kind not in KINDS:
        raise KeyError(kind)
    job_id = uuid4()
    with database.tenant(tenant_id) as tx:
        # The unfinished job may end between the two queries.
        while not rows.add(tx, job_id, tenant_id, kind, parameters, lone=lone):
            found = rows.find_lone(tx, tenant_id, kind)
            if found is not None:
                return found
        if actor is not None:
            audit.enter(tx, tenant_id, "job_started", actor, details={"job": str(job_id), "kind": kind})
    send_on()
    return job_id


def send() -> int:
    """Send the jobs whose turn it is, including those whose message or worker was lost; return the number sent.

    Raises:
        kombu.exceptions.OperationalError: The broker is unreachable; the jobs are sent again after a lease.
    """
    rights = of_rights()
    with database.shared() as tx:
        due = {task: rows.send(tx, AT_ONCE, rights, among=task == queues.RIGHTS_JOB) for task in _TASKS}
    for task, jobs_due in due.items():
        for job_id in jobs_due:
            queues.enqueue(task, job_id, expires_seconds=None)
    return sum(map(len, due.values()))


def of_rights() -> list[str]:
    """List the kinds whose jobs run in the lane `rights`; all other kinds run in maintenance."""
    return [name for name, kind in KINDS.items() if kind.task == queues.RIGHTS_JOB]


def send_on() -> None:
    """Send the jobs whose turn it is, logging failures: the next tick sends them again."""
    try:
        send()
    except Exception as error:  # noqa: BLE001 - the rows still determine which job is next
        log.warning("job_not_sent", error=type(error).__name__)


def carry_on(job_id: UUID) -> None:
    """Run a job for one slice, unless it has ended or another worker holds its lease."""
    claim_id = uuid4()
    with database.shared() as tx:
        held = rows.claim(tx, job_id, claim_id, _lease_seconds())
    if held is None:
        return
    try:
        _go_on(held, claim_id)
    except Exception as error:
        _put_off(held.job, claim_id, error)
        raise
    finally:
        send_on()


def _go_on(held: Held | None, claim_id: UUID) -> None:
    deadline = time.monotonic() + settings().slice_seconds
    while held is not None:
        job = held.job
        kind = KINDS.get(job.kind)
        if held.attempts > settings().deliveries_max:
            _fail(job, claim_id, KILLED)
            return
        if held.cancel_wanted:
            _cancel(job, claim_id, kind)
            return
        if kind is None:
            _fail(job, claim_id, UNKNOWN)
            return
        if kind.task == queues.JOB and precedence.has_ingest(held.age_seconds):
            _give_way(job, claim_id)
            return
        step = kind.step(job)
        failpoints.reach("job.before_note")
        then: Literal["queued", "running", "done", "failed"] = "running" if time.monotonic() < deadline else "queued"
        if step.finished:
            then = "failed" if step.failure else "done"
        with database.shared() as tx:
            held = rows.note(tx, job.job_id, claim_id, step, then=then, lease_seconds=_lease_seconds())
        if held is None:
            log.warning("job_lost", job=str(job.job_id), kind=job.kind)  # its lease expired during a long step
        else:
            _count(held, job, step, then)
        if then != "running":
            return


def _count(held: Held, job: Job, step: Step, then: str) -> None:
    """Count a step's rows (for a nightly run, under the name of its current step) and the end of a slice."""
    if job.kind == night.KIND:
        for name, amount in step.counts.items():
            inner, _, action = name.partition(".")
            metrics.count_rows(inner, {action or "done": amount})
    else:
        metrics.count_rows(job.kind, {**step.counts, "done": step.done})
    if step.finished:
        _tell(held, step.failure)
    if then != "running":
        metrics.count("deliveries", lane=_lane(job.kind), outcome="done")


def _lane(kind: str) -> str:
    """Return the lane of a kind of job; kinds unknown to this version count as maintenance."""
    return metrics.LANE_OF_TASK[KINDS[kind].task if kind in KINDS else queues.JOB]


def _ended(kind: str, outcome: str) -> None:
    metrics.count("jobs", lane=_lane(kind), outcome=outcome)


def _tell(held: Held, failure: str | None) -> None:
    ended = held.job
    about = {"job": str(ended.job_id), "kind": ended.kind, "tenant": str(ended.tenant_id), "items": ended.done}
    metrics.job_ended(ended.kind, held.run_seconds, well=failure is None)
    if failure is None:
        _ended(ended.kind, "done")
        log.info("job_done", **about)
    else:
        _ended(ended.kind, "failed")
        log.error("job_failed", **about, reason=failure)


def _give_way(job: Job, claim_id: UUID) -> None:
    """Postpone a job in favour of memories that wait to be stored or indexed."""
    with database.shared() as tx:
        message = "gives way to ingest"
        rows.put_off(tx, job.job_id, claim_id, delay_seconds=GIVE_WAY_SECONDS, forgive=True, message=message)
    metrics.count("deliveries", lane=_lane(job.kind), outcome="put_off")


def _cancel(job: Job, claim_id: UUID, kind: Kind | None) -> None:
    if kind is not None and kind.cancelled is not None:
        kind.cancelled(job)
    with database.shared() as tx:
        rows.end(tx, job.job_id, claim_id, "cancelled", "cancelled")
    _ended(job.kind, "cancelled")
    log.info("job_cancelled", job=str(job.job_id), kind=job.kind, tenant=str(job.tenant_id))


def _put_off(job: Job, claim_id: UUID, error: Exception) -> None:
    """Postpone a job whose step or clean-up failed; fail it after too many non-transient failures."""
    name = type(error).__name__
    passing = is_passing(error)
    metrics.count("deliveries", lane=_lane(job.kind), outcome="put_off" if passing else "failed")
    with database.shared() as tx:
        attempts = rows.attempts(tx, job.job_id, claim_id)
        if passing or attempts < settings().deliveries_max:
            message = f"put off: {name}" if passing else f"try {attempts} failed: {name}"
            rows.put_off(tx, job.job_id, claim_id, delay_seconds=RETRY_SECONDS, forgive=passing, message=message)
            return
    # Our own errors name the remedy and contain no content; of other errors, only the type is known to be safe.
    _fail(job, claim_id, str(error) if isinstance(error, EbbingError) else name)


def _fail(job: Job, claim_id: UUID, reason: str) -> None:
    with database.shared() as tx:
        rows.end(tx, job.job_id, claim_id, "failed", f"failed: {reason}", reason)
    _ended(job.kind, "failed")
    log.error("job_failed", job=str(job.job_id), kind=job.kind, tenant=str(job.tenant_id), reason=reason)


def _lease_seconds() -> float:
    """Return the maximum duration of a step; with a provider, its retries are added."""
    config = settings()
    return LEASE_SECONDS + (config.llm_tries_seconds if config.has_provider else 0)


def get(tenant_id: UUID, job_id: UUID) -> Listed:
    """Return a job with its log.

    Raises:
        NotFound: This tenant has no such job.
    """
    with database.shared() as tx:
        found = rows.get(tx, tenant_id, job_id)
    if found is None:
        raise NotFound("this tenant has no such job")
    return found


def page(
    tenant_id: UUID, status: str | None, kind: str | None, older_than: tuple[datetime, UUID] | None, limit: int
) -> list[Listed]:
    """List jobs, newest first, starting after `older_than` (creation time and id)."""
    with database.shared() as tx:
        return rows.page(tx, tenant_id, status=status, kind=kind, older_than=older_than, limit=limit)


def cancel(tenant_id: UUID, job_id: UUID) -> Listed:
    """Request a job's cancellation; it ends between two steps, or when its turn comes.

    Raises:
        NotFound: This tenant has no such job.
        Conflict: The job has ended.
    """
    with database.shared() as tx:
        wanted = rows.want_cancel(tx, tenant_id, job_id)
    found = get(tenant_id, job_id)
    if not wanted:
        raise Conflict(f"this job has ended: it is {found.status}")
    send_on()
    return found
