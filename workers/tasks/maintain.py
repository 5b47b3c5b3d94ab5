"""Lane `maintain`: the schedule, and what it starts."""

from __future__ import annotations

from uuid import UUID

from app import queues
from app.services.jobs import runner, schedule
from app.services.monitoring import figures as kept
from workers.base import task
from workers.schedule import DEFAULT_SCHEDULE


@task(queues.TICK)
def tick() -> None:
    """Start what is due."""
    schedule.tick(DEFAULT_SCHEDULE)


@task(queues.FIGURES)
def figures() -> None:
    """Keep what pages and metrics show of the time that has passed."""
    kept.keep()


@task(queues.JOB)
def job(job_id: str) -> None:
    """Go on with a job for a slice."""
    runner.carry_on(UUID(job_id))
