"""Lane `rights`: requests that don't wait for the night: erasures, exports, restores."""

from __future__ import annotations

from uuid import UUID

from app import queues
from app.services.jobs import queue, runner
from workers.base import task


@task(queues.RIGHTS_TICK)
def tick() -> None:
    """Send the jobs that are ready; the tick of the lane `maintain` may be blocked by a long step."""
    queues.clear_nudge(queues.RIGHTS_TICK)
    queue.end_overlong_leases_and_send()


@task(queues.RIGHTS_JOB)
def job(job_id: str) -> None:
    """Run a slice of a job."""
    runner.run_slice(UUID(job_id))
