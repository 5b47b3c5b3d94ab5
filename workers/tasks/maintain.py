"""Lane `maintain`: the schedule and the jobs that it starts."""

from __future__ import annotations

from uuid import UUID

from app import queues
from app.services.consolidation import consolidation_run
from app.services.jobs import runner, schedule
from app.services.monitoring import fleet_gauges
from workers.base import task


@task(queues.TICK)
def tick() -> None:
    """Start scheduled work that is due."""
    schedule.insert_due_runs(schedule.DEFAULT_SCHEDULE)


@task(queues.FIGURES)
def figures() -> None:
    """Refresh the cached figures for dashboard pages and metrics."""
    fleet_gauges.refresh()


@task(queues.GROWTH)
def growth() -> None:
    """Start consolidations of tenants that have become large."""
    consolidation_run.start_by_size()


@task(queues.JOB)
def job(job_id: str) -> None:
    """Run a slice of a job."""
    runner.run_slice(UUID(job_id))
