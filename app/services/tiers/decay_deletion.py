"""Permanently delete cold memories that meet every condition for deletion.

Memories deleted by a caller (`DELETE /v1/memories/{id}`) aren't included: they are hidden at once, and erased later.
"""

from __future__ import annotations

import time
from collections import Counter
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

import numpy as np

from app import failpoints, queues
from app.domain.jobs import Job, Step
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.domain.tiers.tier_decision import DELETED
from app.services.storage.memory_write import memory_write
from app.services.strength.rebase import STEP_SECONDS, reference_time
from app.services.tiers import dry_run, transitions
from app.services.tiers.dry_run import DryRunKind
from app.store.consolidation import decayed_sources
from app.store.core import database
from app.store.tenants import keep_calibrations
from app.store.tiers import row_deletion

KIND: Final = "delete"
SOURCE: Final = "cold"
_COLD: Final = DECAY_TIERS.index(SOURCE)


def delete(tenant_id: UUID, as_of: datetime | None = None, limit: int = row_deletion.MOST) -> tuple[int, Counter[str]]:
    """Delete a slice of the cold memories that are due for deletion at a given time. Call again until it examines none.

    Args:
        as_of: Reference time; None for the current time of each call.
        limit: Maximum number of memories, up to `row_deletion.MOST`.

    Returns:
        The number of memories examined, and the count of `deleted` ones.
    """
    with memory_write(tenant_id, "tier", "delete.before_commit") as write:
        due = transitions.claim_due(write, SOURCE, limit, as_of)
        deletable = due.only(np.flatnonzero(due.decision.tiers == DELETED))
        if deletable.held.ids:
            decayed_sources.add(write.tx, tenant_id, deletable.held.ids)  # summaries keep their content
            keep_calibrations.count_deleted(write.tx, tenant_id, len(deletable.held.ids))
            write.delete(deletable.held.ids, transitions.count_by_rule("deleted", deletable.decision))
            failpoints.trigger("delete.before_audit")
            write.audit("memories_deleted", ids=deletable.held.ids, details={"rule": "decay"})
    failpoints.trigger("delete.after_commit")
    return due.looked_at, Counter(deleted=len(deletable.held)) if deletable.held.ids else Counter()


WORK: Final = DryRunKind(
    ("deleted",),
    lambda _tx, _tenant_id, _version: SOURCE,
    lambda _held, standing, decision: (
        standing.tiers,
        np.where((standing.tiers == _COLD) & (decision.tiers == DELETED), DELETED, standing.tiers),
    ),
)


preview_deletion = partial(dry_run.preview_moves, WORK)
"""Return what would be deleted at a given time; see `dry_run.preview_moves` for the arguments."""


def run_job_slice(job: Job) -> Step:
    """Delete memories for `STEP_SECONDS`."""
    return run_slice(job.tenant_id, reference_time(job), job.state, time.monotonic() + STEP_SECONDS)


def run_slice(tenant_id: UUID, as_of: datetime | None, state: dict[str, Any], until: float) -> Step:
    """Continue deleting, with one reference time for all slices; see `rebase.run_slice` for the arguments."""
    if not state:
        with database.tenant(tenant_id) as tx:
            state = {"as_of": (as_of or database.now(tx)).isoformat()}
    moment = datetime.fromisoformat(state["as_of"])
    examined, counts = 0, Counter[str]()
    while True:
        looked_at, deleted = delete(tenant_id, moment)
        examined += looked_at
        counts += deleted
        if not looked_at or time.monotonic() >= until:
            if counts:
                queues.nudge(queues.EMBED_MEMORIES)
            return Step(examined, state, finished=not looked_at, counts=dict(counts))
