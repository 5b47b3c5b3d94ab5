"""Lane `maintain`: the schedule, and what it starts."""

from __future__ import annotations

from uuid import UUID

from app import queues
from app.services import jobs, night, retention, schedule
from workers.base import task
from workers.schedule import DEFAULT_SCHEDULE


@task(queues.TICK)
def tick() -> None:
    """Start what is due."""
    schedule.tick(DEFAULT_SCHEDULE)


@task(queues.JOB)
def job(job_id: str) -> None:
    """Go on with a job for a slice."""
    jobs.carry_on(UUID(job_id))


@task(queues.SWEEP)
def sweep(run_id: str) -> None:
    """Look at the memories to which something can have happened."""
    schedule.carry_out(UUID(run_id), night.sweep)


@task(queues.PURGE_LEDGER)
def purge_ledger(run_id: str) -> None:
    """Delete ledger rows that no replay can need any more, and old records."""
    schedule.carry_out(UUID(run_id), retention.keep_house)


@task(queues.HEARTBEATS[queues.MAINTAIN])
def heartbeat() -> None:
    """Say that this lane is alive: so does every task before it starts."""
