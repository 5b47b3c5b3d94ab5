"""Execute at night the erasures that are due and have no job of their own, such as deletions of single memories."""

from __future__ import annotations

import time
from collections import Counter
from datetime import datetime
from typing import Any
from uuid import UUID

from app.domain.jobs import ERASE, Job, Step
from app.services.erasure import batch
from app.services.erasure.execution import run_slice
from app.services.erasure.requests import adopt
from app.store.core import database
from app.store.erasure import requests


def run_night_slice(tenant_id: UUID, as_of: datetime, state: dict[str, Any], until: float) -> Step:
    """Execute the erasures that are due and have no unfinished job, such as deletions of single memories.

    The first slice also adopts memories that earlier versions deleted, and clears aliases that these versions left.

    Args:
        as_of: The time of the nightly run.
        state: State returned by the previous slice; empty at first.
        until: Deadline on the monotonic clock; at least one piece of work is always done.
    """
    adopted = 0
    if not state:
        with database.tenant(tenant_id) as tx:
            requests.clear_aliases(tx, tenant_id)
    while not state:
        adopted_now = adopt(tenant_id)
        adopted += adopted_now
        # `apart` is read by workers of the previous release during an upgrade.
        state = {} if adopted_now else {"erasure": None, "failed": [], "apart": [], "fold": True}
    processed, counts = 0, Counter[str]({"adopted": adopted} if adopted else {})
    while True:
        if state["erasure"] is None:
            next_id = batch.fold(tenant_id, as_of) if state.get("fold", True) else None
            state = {**state, "fold": next_id is not None}
            if next_id is None:
                with database.tenant(tenant_id) as tx:
                    next_id = requests.due(tx, tenant_id, as_of, [UUID(failed_id) for failed_id in state["failed"]])
            if next_id is None:
                return Step(processed, state, finished=True, counts=dict(counts))
            state = {**state, "erasure": str(next_id), "inner": {}}
        job = Job(UUID(int=0), tenant_id, ERASE, {"erasure_id": state["erasure"]}, state["inner"], None, 0)
        step = run_slice(job)
        processed += step.done
        counts.update(step.counts)
        if step.finished:
            failed = [*state["failed"], state["erasure"]] if step.failure else state["failed"]
            state = {**state, "erasure": None, "failed": failed}
        else:
            state = {**state, "inner": step.state}
        if time.monotonic() >= until:
            return Step(processed, state, finished=False, counts=dict(counts))
