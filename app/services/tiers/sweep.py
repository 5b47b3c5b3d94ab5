"""The sweep: memories whose next moment has come are looked at, and those alone.

Strength is a function of time, so it doesn't matter how often or how late this runs: a sweep notes what decay asks
for at a moment, and when to look again.
"""

from __future__ import annotations

import time
from collections import Counter
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from app.domain.jobs import Job, Step
from app.domain.tiers.lifecycle import Decision, Standing
from app.domain.tiers.tiers import DECAY_TIERS
from app.services.strength import rebase, strengths
from app.services.tiers import previews
from app.services.tiers.previews import Preview, Tiers, Work
from app.store.core import database
from app.store.strength import pages, states
from app.store.strength.pages import Wanted
from app.store.strength.states import Held

KIND: Final = "sweep"
ROWS: Final = 5000


def sweep(tenant_id: UUID, as_of: datetime | None = None, limit: int = ROWS) -> tuple[int, Counter[str]]:
    """Note where memories shall be kept at a moment, for a slice of the memories that are due. Call again until 0.

    Args:
        tenant_id: The tenant.
        as_of: Up to now; None for now, which each call then takes anew.
        limit: Most memories.

    Returns:
        How many were looked at, and the tiers that are wanted anew, each with its count.
    """
    with database.tenant(tenant_id) as tx:
        now = (as_of or database.now(tx)).timestamp()
        times = strengths.timeline(tx, tenant_id)
        held = states.lock_due(tx, tenant_id, now, times.at(now).version, limit)
        return len(held), strengths.settle(tx, tenant_id, held, times, now)


def _due(tx: database.Transaction, tenant_id: UUID, version: int) -> Wanted:
    return "due or older" if rebase.is_due(tx, tenant_id, version) else "due"


def _noted(held: Held, _: Standing, decision: Decision) -> tuple[Tiers, Tiers]:
    """A sweep moves nothing: it notes where memories shall be kept."""
    return held.wanted_tiers, decision.tiers


_SWEEP: Final = Work(DECAY_TIERS, _due, _noted)
_REBASE: Final = Work(DECAY_TIERS, lambda _tx, _tenant_id, _version: "older", _noted)


def preview(
    tenant_id: UUID, as_of: datetime | None, after: UUID | None, limit: int, *, only_rebase: bool = False
) -> Preview:
    """What a sweep at a moment would note anew, or a rebase instead; arguments as `previews.preview`'s."""
    return previews.preview(_REBASE if only_rebase else _SWEEP, tenant_id, as_of, after, limit)


def step(job: Job) -> Step:
    """A few seconds of a sweep."""
    return carry_on(job.tenant_id, rebase.moment_of(job), job.state, time.monotonic() + rebase.STEP_SECONDS)


def carry_on(tenant_id: UUID, as_of: datetime | None, state: dict[str, Any], until: float) -> Step:
    """Go on with a sweep from where it was left: a rebase first, where one is due; arguments as `rebase.carry_on`'s.

    All of its slices are of one moment, so that it comes to an end whatever happens meanwhile.
    """
    if not state:
        return _begun(tenant_id, as_of)
    as_of = datetime.fromisoformat(state["as_of"])
    if "rebase" in state:
        rebased = rebase.carry_on(tenant_id, as_of, state["rebase"], until)
        kept = {"as_of": state["as_of"]} | ({} if rebased.finished else {"rebase": rebased.state})
        return Step(rebased.done, kept, finished=False, counts=rebased.counts)
    done, counts = 0, Counter[str]()
    while True:
        looked, moved = sweep(tenant_id, as_of)
        done += looked
        counts += moved
        if not looked or time.monotonic() >= until:
            return Step(done, state, finished=not looked, counts=dict(counts))


def _begun(tenant_id: UUID, as_of: datetime | None) -> Step:
    with database.tenant(tenant_id) as tx:
        as_of = as_of or database.now(tx)
        now = as_of.timestamp()
        version = strengths.timeline(tx, tenant_id).at(now).version
        is_due = rebase.is_due(tx, tenant_id, version)
        total = pages.count_of(tx, tenant_id, "due or older" if is_due else "due", now, version)
    return Step(0, {"as_of": as_of.isoformat()} | ({"rebase": {}} if is_due else {}), finished=False, total=total)
