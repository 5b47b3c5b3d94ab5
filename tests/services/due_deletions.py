"""Helpers that carry out due deletions as the night after their grace period does."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from app.services.erasure import night_slice
from app.services.jobs import runner
from app.settings import settings
from tests.service import Service

UNFINISHED = "SELECT job_id FROM jobs WHERE status IN ('queued', 'running')"
DUE = f"{UNFINISHED} AND claimed_until <= now() OR (status = 'queued' AND claim IS NOT NULL)"


def worked(service: Service, which: str = DUE) -> None:
    """Carry out the jobs that are due (or all unfinished ones), and the jobs that they queue.

    Runs one step of each job per round, since some wait for entries in the stream.
    """
    slice_seconds = settings().slice_seconds
    for _ in range(1000):
        due = service.rows(which)
        if not due:
            return
        service.configure(slice_seconds=1e-6)
        for (job_id,) in due:
            service.rows("UPDATE jobs SET claim = gen_random_uuid() WHERE job_id = %s", job_id)
            runner.run_slice(job_id)
        service.configure(slice_seconds=slice_seconds)
        service.work()
    raise AssertionError("jobs without an end")


def erased(tenant_id: UUID) -> None:
    """Erase every deleted memory as of a day after the grace period."""
    state: dict[str, Any] = {}
    later = datetime.now(UTC) + timedelta(days=31)
    for _ in range(1000):
        did = night_slice.run_night_slice(tenant_id, later, state, time.monotonic())
        if did.finished:
            return
        state = did.state
    raise AssertionError("no end of it")
