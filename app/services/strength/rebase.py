"""Rebase memories that are anchored under an older policy onto the policy in force, in slices by id.

A rebase doesn't change a memory's current strength, because the strength of a row under an older policy is computed era
by era. The row's next due time, however, was computed under the older policy, so a sweep rebases first.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from app.domain.jobs import Job, Step
from app.services.strength import memory_strength
from app.store.core import database
from app.store.enrichment.work_queue import NIL
from app.store.strength import due_pages, states
from app.store.tenants import policies

KIND: Final = "rebase"
ROWS: Final = 5000
STEP_SECONDS: Final = 2.0


def run_job_slice(job: Job) -> Step:
    """Run a rebase for `STEP_SECONDS`."""
    return run_slice(job.tenant_id, reference_time(job), job.state, time.monotonic() + STEP_SECONDS)


def reference_time(job: Job) -> datetime | None:
    """Return the reference time of a maintenance job; None for the present."""
    as_of = job.parameters.get("as_of")
    return datetime.fromisoformat(as_of) if as_of else None


def is_due(tx: database.Transaction, tenant_id: UUID, version: int) -> bool:
    """Return whether memories may still be anchored under a policy older than this version, without reading any."""
    return not policies.is_rebased(tx, tenant_id, version)


def run_slice(tenant_id: UUID, as_of: datetime | None, state: dict[str, Any], until: float) -> Step:
    """Continue a rebase.

    Args:
        as_of: Rebase onto the policy in force at this time; None for now.
        state: State returned by the previous step; empty at first.
        until: Deadline by the monotonic clock; at least one slice is processed.
    """
    rebased, total = 0, None
    counts: dict[str, int] = {}
    after, version, done_before = UUID(state.get("after", NIL.hex)), state.get("version"), state.get("done", 0)
    while True:
        with database.tenant(tenant_id) as tx:
            now = (as_of or database.now(tx)).timestamp()
            times = memory_strength.load_timeline(tx, tenant_id)
            era = times.at(now)
            if version != era.version:  # first slice, or a new policy has come into force since
                after, version = NIL, era.version
                total = done_before + rebased + due_pages.count_of(tx, tenant_id, "older", now, version)
            stored = states.lock_older(tx, tenant_id, version, after, ROWS)
            for tier, changed in memory_strength.write_tiers(tx, tenant_id, stored, times, now).items():
                counts[tier] = counts.get(tier, 0) + changed
            finished = len(stored) < ROWS
            if finished:
                policies.mark_rebased(tx, tenant_id, version)
        rebased += len(stored)
        after = stored.ids[-1] if stored.ids else after
        if finished or time.monotonic() >= until:
            next_state = {"version": version, "after": after.hex, "done": done_before + rebased}
            return Step(rebased, next_state, finished, total=total, counts=counts)
