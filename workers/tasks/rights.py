"""Lane `rights`: what people have asked for, which waits for no night: erasures, exports, restores."""

from __future__ import annotations

from uuid import UUID

from app import queues
from app.services.jobs import jobs, runner
from workers.base import task


@task(queues.RIGHTS_TICK)
def tick() -> None:
    """Send the jobs whose turn it is: the other lane's tick may wait behind a long step."""
    jobs.send()


@task(queues.RIGHTS_JOB)
def job(job_id: str) -> None:
    """Go on with a job for a slice."""
    runner.carry_on(UUID(job_id))
