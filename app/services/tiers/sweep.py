"""Sweep: re-evaluate only the memories whose next due time has been reached.

Strength is a function of time, so the frequency and delay of sweeps don't affect it. For each memory, a sweep records
the tier that decay demands at a given time and the time of the next evaluation.
"""

from __future__ import annotations

import time
from collections import Counter
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from app.domain.jobs import Job, Step
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.domain.tiers.tier_decision import Decision, TierFacts
from app.services.strength import memory_strength, rebase
from app.services.tiers import dry_run
from app.services.tiers.dry_run import DryRunKind, PreviewPage, Tiers
from app.store.core import database
from app.store.strength import due_pages, states
from app.store.strength.due_pages import Wanted
from app.store.strength.states import StoredStates

KIND: Final = "sweep"
ROWS: Final = 5000


def sweep(tenant_id: UUID, as_of: datetime | None = None, limit: int = ROWS) -> tuple[int, Counter[str]]:
    """Record the tier decided at a given time for a slice of the due memories. Call again until it examines none.

    Args:
        as_of: Reference time; None for the current time of each call.

    Returns:
        The number of memories examined, and the number of changed decisions by tier.
    """
    with database.tenant(tenant_id) as tx:
        now = (as_of or database.now(tx)).timestamp()
        times = memory_strength.load_timeline(tx, tenant_id)
        stored = states.lock_due(tx, tenant_id, now, times.at(now).version, limit)
        return len(stored), memory_strength.write_tiers(tx, tenant_id, stored, times, now)


def _due(tx: database.Transaction, tenant_id: UUID, version: int) -> Wanted:
    return "due or older" if rebase.is_due(tx, tenant_id, version) else "due"


def _counts_decision(held: StoredStates, _: TierFacts, decision: Decision) -> tuple[Tiers, Tiers]:
    """Return the due tiers before and after: a sweep records decisions but moves nothing."""
    return held.wanted_tiers, decision.tiers


_SWEEP: Final = DryRunKind(DECAY_TIERS, _due, _counts_decision)
_REBASE: Final = DryRunKind(DECAY_TIERS, lambda _tx, _tenant_id, _version: "older", _counts_decision)


def preview_sweep(
    tenant_id: UUID, as_of: datetime | None, after: UUID | None, limit: int, *, only_rebase: bool = False
) -> PreviewPage:
    """Return the decisions that a sweep, or only a rebase, would change at a time; see `dry_run.preview_moves`."""
    return dry_run.preview_moves(_REBASE if only_rebase else _SWEEP, tenant_id, as_of, after, limit)


def run_job_slice(job: Job) -> Step:
    """Run a sweep for `rebase.STEP_SECONDS`."""
    return run_slice(job.tenant_id, rebase.reference_time(job), job.state, time.monotonic() + rebase.STEP_SECONDS)


def run_slice(tenant_id: UUID, as_of: datetime | None, state: dict[str, Any], until: float) -> Step:
    """Rebase the memories if a rebase is due, then sweep; see `rebase.run_slice` for the arguments.

    All slices use the same reference time, so that the work ends whatever happens concurrently.
    """
    if not state:
        return _start(tenant_id, as_of)
    as_of = datetime.fromisoformat(state["as_of"])
    if "rebase" in state:
        rebased = rebase.run_slice(tenant_id, as_of, state["rebase"], until)
        next_state = {"as_of": state["as_of"]} | ({} if rebased.finished else {"rebase": rebased.state})
        return Step(rebased.done, next_state, finished=False, counts=rebased.counts)
    examined, counts = 0, Counter[str]()
    while True:
        slice_size, changes = sweep(tenant_id, as_of)
        examined += slice_size
        counts += changes
        if not slice_size or time.monotonic() >= until:
            return Step(examined, state, finished=not slice_size, counts=dict(counts))


def _start(tenant_id: UUID, as_of: datetime | None) -> Step:
    with database.tenant(tenant_id) as tx:
        as_of = as_of or database.now(tx)
        now = as_of.timestamp()
        version = memory_strength.load_timeline(tx, tenant_id).at(now).version
        is_due = rebase.is_due(tx, tenant_id, version)
        total = due_pages.count_of(tx, tenant_id, "due or older" if is_due else "due", now, version)
    return Step(0, {"as_of": as_of.isoformat()} | ({"rebase": {}} if is_due else {}), finished=False, total=total)
