"""Run jobs: claim a job, run its steps for the length of a slice, and record each step's result.

Only this module maps kinds of jobs to their implementations, and only workers import it. After a slice, the job that
has waited longest runs next.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID, uuid4

import structlog

from app import failpoints, metrics, queues
from app.domain.changes.types import NIGHT_FINISHED
from app.domain.jobs import ERASE, Job, Step
from app.errors import EbbingError, stored_name
from app.services.consolidation import approval, consolidation_run, summary_refresh
from app.services.embedding import reembed, tenant_indexes
from app.services.erasure import execution, index_removal
from app.services.evaluation import self_tests
from app.services.ingest import import_job, import_requests
from app.services.jobs import backpressure, lease, queue
from app.services.jobs.lease import LEASE_SECONDS
from app.services.night import night_run
from app.services.notes import note_run
from app.services.privacy import export_job, export_requests, legal_holds, quarantines
from app.services.storage.memory_write import HIDE
from app.services.strength import rebase
from app.services.tiers import (
    archive,
    cold_restore,
    cold_storage,
    decay_deletion,
    expiry,
    promotion_run,
    segment_compaction,
    sweep,
)
from app.services.transient_errors import is_transient
from app.settings import settings
from app.store.changes import feed
from app.store.core import database
from app.store.jobs import jobs
from app.store.jobs.jobs import ClaimedJob

RETRY_SECONDS: Final = 10
GIVE_WAY_SECONDS: Final = 15
KILLED: Final = "every worker that ran the job died"
UNKNOWN: Final = "unknown kind"

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class JobKind:
    """The functions of a kind of job.

    Attributes:
        step: Performs a few seconds of work in separate transactions. After a crash, the step runs again from the state
            before it, so its writes must be idempotent.
        cancelled: Cleans up after a cancelled job; must be idempotent.
    """

    step: Callable[[Job], Step]
    cancelled: Callable[[Job], None] | None = None


KINDS: dict[str, JobKind] = {
    reembed.KIND: JobKind(reembed.run_job_slice, reembed.clean_cancelled),
    rebase.KIND: JobKind(rebase.run_job_slice),
    promotion_run.KIND: JobKind(promotion_run.run_job_slice),
    sweep.KIND: JobKind(sweep.run_job_slice),
    archive.KIND: JobKind(archive.run_job_slice),
    tenant_indexes.KIND: JobKind(tenant_indexes.run_job_slice),
    cold_storage.KIND: JobKind(cold_storage.run_job_slice),
    cold_restore.KIND: JobKind(cold_restore.run_job_slice),
    segment_compaction.KIND: JobKind(segment_compaction.run_job_slice),
    HIDE: JobKind(index_removal.run_hide_slice),
    ERASE: JobKind(execution.run_slice),
    expiry.KIND: JobKind(expiry.run_job_slice),
    export_requests.KIND: JobKind(export_job.run_job_slice),
    import_requests.KIND: JobKind(import_job.run_job_slice, import_job.clean_cancelled),
    legal_holds.KIND: JobKind(legal_holds.run_job_slice),
    quarantines.KIND: JobKind(quarantines.run_job_slice),
    decay_deletion.KIND: JobKind(decay_deletion.run_job_slice),
    self_tests.KIND: JobKind(self_tests.run_job_slice),
    night_run.KIND: JobKind(night_run.run_job_slice),
    note_run.KIND: JobKind(note_run.run_job_slice),
    consolidation_run.KIND: JobKind(consolidation_run.run_job_slice),
    approval.KIND: JobKind(approval.run_job_slice),
    summary_refresh.KIND: JobKind(summary_refresh.run_job_slice),
}


def run_slice(job_id: UUID) -> None:
    """Run the steps of a job for the length of a slice, unless it has ended or another worker has claimed it."""
    claim_id = uuid4()
    with database.shared() as tx:
        claimed = jobs.claim(tx, job_id, claim_id, LEASE_SECONDS)
    if claimed is None:
        return
    try:
        with lease.renewed(lambda tx: jobs.renew_claim(tx, job_id, claim_id, LEASE_SECONDS), job=str(job_id)):
            _run_steps(claimed, claim_id)
    except Exception as error:
        _postpone(claimed.job, claim_id, error)
        raise
    finally:
        queue.send_quietly()


def _run_steps(held: ClaimedJob | None, claim_id: UUID) -> None:
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
        if queue.task_name(job.kind) == queues.JOB and backpressure.must_wait_for_ingest(held.age_seconds):
            _yield_to_ingest(job, claim_id)
            return
        step = kind.step(job)
        failpoints.trigger("job.before_note")
        status: Literal["queued", "running", "done", "failed"] = "running" if time.monotonic() < deadline else "queued"
        if step.finished:
            status = "failed" if step.failure else "done"
        with database.tenant(job.tenant_id) as tx:
            held = jobs.record_step(tx, job.job_id, claim_id, step, then=status, lease_seconds=LEASE_SECONDS)
            if held is not None and step.finished and job.kind == night_run.KIND:
                feed.record(tx, job.tenant_id, NIGHT_FINISHED, [job.job_id])
        if held is None:
            log.warning("job_lost", job=str(job.job_id), kind=job.kind)  # no renewal in time: the worker stalled
        else:
            _count(held, job, step, status)
        if status != "running":
            return


def _count(held: ClaimedJob, job: Job, step: Step, then: str) -> None:
    """Count the rows processed by a step (for a nightly run, by its inner steps), ended slices and finished jobs."""
    if job.kind == night_run.KIND:
        for name, amount in step.counts.items():
            inner, _, action = name.partition(".")
            metrics.count_rows(inner, {action or "done": amount})
    else:
        metrics.count_rows(job.kind, {**step.counts, "done": step.done})
    if step.finished:
        _report_end(held, step.failure)
    if then != "running":
        metrics.count("deliveries", lane=_lane(job.kind), outcome="done")


def _lane(kind: str) -> str:
    """Return the lane for jobs of a kind; kinds unknown to this version count as maintenance."""
    return metrics.LANE_OF_TASK[queue.task_name(kind)]


def _count_outcome(kind: str, outcome: str) -> None:
    metrics.count("jobs", lane=_lane(kind), outcome=outcome)


def _report_end(held: ClaimedJob, failure: str | None) -> None:
    job = held.job
    fields = {"job": str(job.job_id), "kind": job.kind, "tenant": str(job.tenant_id), "items": job.done}
    metrics.record_job(job.kind, held.run_seconds, well=failure is None)
    if failure is None:
        _count_outcome(job.kind, "done")
        log.info("job_done", **fields)
    else:
        _count_outcome(job.kind, "failed")
        log.error("job_failed", **fields, reason=failure)


def _yield_to_ingest(job: Job, claim_id: UUID) -> None:
    """Postpone a job because ingest is behind."""
    with database.shared() as tx:
        message = "gives way to ingest"
        jobs.requeue(tx, job.job_id, claim_id, delay_seconds=GIVE_WAY_SECONDS, forgive=True, message=message)
    metrics.count("deliveries", lane=_lane(job.kind), outcome="put_off")


def _cancel(job: Job, claim_id: UUID, kind: JobKind | None) -> None:
    if kind is not None and kind.cancelled is not None:
        kind.cancelled(job)
    with database.shared() as tx:
        jobs.end_job(tx, job.job_id, claim_id, "cancelled", "cancelled")
    _count_outcome(job.kind, "cancelled")
    log.info("job_cancelled", job=str(job.job_id), kind=job.kind, tenant=str(job.tenant_id))


def _postpone(job: Job, claim_id: UUID, error: Exception) -> None:
    """Requeue a job whose step or clean-up failed; fail it after the last attempt, unless the error is transient."""
    name = stored_name(error)
    transient = is_transient(error)
    metrics.count("deliveries", lane=_lane(job.kind), outcome="put_off" if transient else "failed")
    with database.shared() as tx:
        attempts = jobs.count_attempts(tx, job.job_id, claim_id)
        if transient or attempts < settings().deliveries_max:
            message = f"put off: {name}" if transient else f"try {attempts} failed: {name}"
            jobs.requeue(tx, job.job_id, claim_id, delay_seconds=RETRY_SECONDS, forgive=transient, message=message)
            return
    # Messages of `EbbingError` contain no memory content. Of other errors, only the class name is safe to record.
    _fail(job, claim_id, str(error) if isinstance(error, EbbingError) else name)


def _fail(job: Job, claim_id: UUID, reason: str) -> None:
    with database.shared() as tx:
        jobs.end_job(tx, job.job_id, claim_id, "failed", f"failed: {reason}", reason)
    _count_outcome(job.kind, "failed")
    log.error("job_failed", job=str(job.job_id), kind=job.kind, tenant=str(job.tenant_id), reason=reason)
