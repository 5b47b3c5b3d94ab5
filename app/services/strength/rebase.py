"""Rebase: memories that are anchored under an older policy are brought to the one in force, in slices by id.

Strength now is the same before and after, and was right all the while: a row under an older policy is worked out
piece by piece. But what such a row says of its next moment is the older policy's word, so a sweep rebases first.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from app.domain.jobs import Job, Step
from app.services.strength import strengths
from app.store.core import database
from app.store.enrichment.work import NIL
from app.store.strength import pages, states
from app.store.tenants import policies

KIND: Final = "rebase"
ROWS: Final = 5000
STEP_SECONDS: Final = 2.0


def step(job: Job) -> Step:
    """A few seconds of a rebase."""
    return carry_on(job.tenant_id, moment_of(job), job.state, time.monotonic() + STEP_SECONDS)


def moment_of(job: Job) -> datetime | None:
    """The moment that a job of maintenance was asked for; None for the present one."""
    as_of = job.parameters.get("as_of")
    return datetime.fromisoformat(as_of) if as_of else None


def is_due(tx: database.Transaction, tenant_id: UUID, version: int) -> bool:
    """Whether memories may be left under an older policy than this version; looks at no memory."""
    return not policies.is_rebased(tx, tenant_id, version)


def carry_on(tenant_id: UUID, as_of: datetime | None, state: dict[str, Any], until: float) -> Step:
    """Go on with a rebase from where it was left.

    Args:
        tenant_id: The tenant.
        as_of: To the policy in force then; None for the one in force now.
        state: As the step before left it; empty at first.
        until: When to leave off, by the monotonic clock; one slice is always done.
    """
    done, total = 0, None
    counts: dict[str, int] = {}
    after, version, before = UUID(state.get("after", NIL.hex)), state.get("version"), state.get("done", 0)
    while True:
        with database.tenant(tenant_id) as tx:
            now = (as_of or database.now(tx)).timestamp()
            times = strengths.timeline(tx, tenant_id)
            era = times.at(now)
            if version != era.version:  # at first, or a new policy has come into force meanwhile
                after, version = NIL, era.version
                total = before + done + pages.count_of(tx, tenant_id, "older", now, version)
            held = states.lock_older(tx, tenant_id, version, after, ROWS)
            for tier, moved in strengths.settle(tx, tenant_id, held, times, now).items():
                counts[tier] = counts.get(tier, 0) + moved
            finished = len(held) < ROWS
            if finished:
                policies.mark_rebased(tx, tenant_id, version)
        done += len(held)
        after = held.ids[-1] if held.ids else after
        if finished or time.monotonic() >= until:
            left_off = {"version": version, "after": after.hex, "done": before + done}
            return Step(done, left_off, finished, total=total, counts=counts)
