"""Complete nights in this process, without a job and its turns."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from app.domain.jobs import Job
from app.services.jobs import housekeeping
from app.services.night import night_run
from app.services.tiers import sweep


def run(tenant_id: UUID, as_of: datetime | None = None) -> Counter[str]:
    """Run a whole night, and return its counts: rows by step, and the steps' own counts."""
    parameters = {} if as_of is None else {"as_of": as_of.isoformat()}
    counts, state = Counter[str](), dict[str, Any]()
    while True:
        step = night_run.run_job_slice(Job(uuid4(), tenant_id, night_run.KIND, parameters, state, None, 0))
        counts.update(step.counts)
        if step.finished:
            assert step.failure is None
            return counts
        state = step.state


def swept(tenant_id: UUID) -> int:
    """Run the night's sweep only, and return the number of memories evaluated."""
    done, state = 0, dict[str, Any]()
    while True:
        step = sweep.run_slice(tenant_id, None, state, time.monotonic())
        done, state = done + step.done, step.state
        if step.finished:
            return done


def purged(tenant_id: UUID) -> Counter[str]:
    """Delete rows whose retention period is over, and return the number of rows by kind."""
    counts, state = Counter[str](), dict[str, Any]()
    while True:
        step = housekeeping.run_slice(tenant_id, datetime.now(UTC), state, time.monotonic())
        counts.update(step.counts)
        if step.finished:
            return counts
        state = step.state
